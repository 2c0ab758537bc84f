// Headless Chromium of Debian, driven by its own protocol over a pipe: messages of JSON, each of which
// ends with a NUL.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { until } from './sample.mjs';

export class Browser {
  #n = 0;
  #waiting = new Map();

  static async start() {
    const browser = new Browser();
    browser.folder = mkdtempSync(path.join(os.tmpdir(), 'chromium-'));
    // The tests run in a container, or as a user without namespaces, where its sandbox cannot be made.
    // Debian's program is a script, so that the browser is ended by its group.
    browser.child = spawn('chromium-headless-shell',
      ['--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', `--user-data-dir=${browser.folder}`, 'about:blank'],
      { detached: true, stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    let text = '';
    browser.child.stdio[4].on('data', (bytes) => {
      const parts = (text + bytes).split('\0');
      text = parts.pop();
      for (const part of parts) browser.#take(JSON.parse(part));
    });
    const { targetInfos } = await browser.#send('Target.getTargets');
    const { targetId } = targetInfos.find(({ type }) => type === 'page');
    ({ sessionId: browser.session } = await browser.#send('Target.attachToTarget', { targetId, flatten: true }));
    await browser.#send('Page.enable');
    return browser;
  }

  #take({ id, result, error }) {
    const { resolve, reject } = this.#waiting.get(id) ?? {};
    this.#waiting.delete(id);
    if (error) reject?.(new Error(error.message));
    else resolve?.(result);
  }

  #send(method, params = {}) {
    const id = ++this.#n;
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: this.session })}\0`);
    return new Promise((resolve, reject) => { this.#waiting.set(id, { resolve, reject }); });
  }

  async #evaluate(expression) {
    return (await this.#send('Runtime.evaluate', { expression, returnByValue: true })).result.value;
  }

  async open(url) {
    await this.#send('Page.navigate', { url });
    await until('the page', () => this.#evaluate('document.readyState === "complete" && location.href').then((href) => href === url));
  }

  // Waits for a page with this title.
  async title(wanted) {
    return until(wanted, async () => await this.#evaluate('document.readyState === "complete" && document.title') === wanted && wanted);
  }

  async back() {
    await this.#evaluate('history.back()');
  }

  // A function that clicks where this element is now.  A page that waits for an answer runs no script.
  async clicker(selector) {
    const { x, y } = await this.#evaluate(`(({ left, top, width, height }) => ({ x: left + width / 2, y: top + height / 2 }))(
      document.querySelector('${selector}').getBoundingClientRect())`);
    return () => {
      for (const type of ['mousePressed', 'mouseReleased']) {
        this.#send('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 }).catch(() => {});
      }
    };
  }

  async end() {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    process.kill(-this.child.pid, 'SIGKILL');
    await ended;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
