// A program of articles/, which runs as long as a test needs it. A job is a line of JSON:
//
//   key            of what is to be done once
//   do             'return', with result; 'fail'; or 'die': write nothing more
//   wait           the work says that it has started, and waits for a word
//   seconds, age   until the claim is over, or since when it is there
//
// and the answer another: whether the work ran, the status that was met or written, the
// result that was met.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

// Debian's Python has the packages of Debian.
const python = '/usr/bin/python3';

export class Program {
  constructor(file, table) {
    const [command, args] = file.endsWith('.py') ? [python, []] : [process.execPath, []];
    this.child = spawn(command, [...args, `articles/${file}`, table], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  async #answer() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error(`the program has ended with ${await this.ended}`);
    return JSON.parse(value);
  }

  run(job) {
    this.child.stdin.write(`${JSON.stringify(job)}\n`);
    return this.#answer();
  }

  // The answer of work that has waited.
  goOn() {
    this.child.stdin.write('\n');
    return this.#answer();
  }

  async end() {
    this.child.stdin.end();
    await this.ended;
  }
}
