// Sends a command to the proxy, see test/harness/proxy.mjs.

export async function control(method, path, body) {
  const answer = await fetch(process.env.EO_CONTROL + path, { method, body: body && JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${text}`);
  return text;
}
