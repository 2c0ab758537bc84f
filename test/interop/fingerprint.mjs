// The fingerprint of a payload, see docs/records.md.

import { createHash } from 'node:crypto';

const sized = (tag, text) => `${tag}${Buffer.byteLength(text)}:${text}`;

// A number in decimal without exponent. JavaScript's integers above 2^53 are not exact.
function decimal(number) {
  const [mantissa, exponent = '0'] = String(Math.abs(number)).split('e');
  const [whole, fraction = ''] = mantissa.split('.');
  const point = whole.length + Number(exponent);
  const digits = whole + fraction;
  const text = point <= 0 ? `0.${'0'.repeat(-point)}${digits}`
    : point >= digits.length ? digits.padEnd(point, '0') : `${digits.slice(0, point)}.${digits.slice(point)}`;
  return (number < 0 ? '-' : '') + text;
}

function form(value) {
  if (value === null) return '0';
  if (typeof value === 'boolean') return sized('b', value ? 't' : 'f');
  if (typeof value === 'number') return sized('n', decimal(value));
  if (typeof value === 'string') return sized('t', value);
  if (Array.isArray(value)) return `a${value.length}:${value.map(form).join('')}`;
  const members = Object.entries(value).map(([name, v]) => [Buffer.from(name), name, v])
    .sort(([a], [b]) => a.length - b.length || Buffer.compare(a, b));
  return `o${members.length}:${members.map(([, name, v]) => sized('t', name) + form(v)).join('')}`;
}

export function fingerprint(payload) {
  return createHash('sha256').update(`exactonce key 1\n${sized('j', form(payload))}`).digest('hex');
}
