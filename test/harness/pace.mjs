// How fast this machine is now, for programs that run inside the harness; see pace() in
// test/t/ExactOnce.pm.

import http from 'node:http';

const ask = (url) => new Promise((resolve, reject) => {
  http.get(url, (answer) => answer.resume().on('end', resolve)).on('error', reject);
});

async function measure() {
  if (process.env.EO_PACE) return Number(process.env.EO_PACE);
  let longest = 0;
  for (let n = 0; n < 40; n++) {
    const began = performance.now();
    await ask(process.env.EO_ENDPOINT);
    // The first ones warm up.
    if (n > 10) longest = Math.max(longest, performance.now() - began);
  }
  const [began, used] = [performance.now(), process.cpuUsage()];
  for (let sum = 0, n = 0; n < 50_000_000; n++) sum += n;
  const { user, system } = process.cpuUsage(used);
  const share = (performance.now() - began) * 1000 / Math.max(10_000, user + system);
  return Math.min(20, Math.max(1, longest / 6, share < 1.5 ? 1 : share));
}

export const pace = await measure();

// The timeouts of a server, as further options of CREATE SERVER: the defaults on an idle machine.
export const timeouts = Object.entries({ connect_timeout: [2, 60], request_timeout: [5, 300], commit_timeout: [5, 300] })
  .map(([name, [seconds, most]]) => `, ${name} '${Math.round(1000 * Math.min(most, seconds * pace))} ms'`).join('');
