// Draws monitoring/dashboard.json as Grafana shows it, with the series that chart.pl has recorded.
// Grafana is in no archive of Debian, so it cannot be asked for the picture.
//
//   node dashboard.mjs RECORDED >monitoring/dashboard.svg

import { readFileSync } from 'node:fs';

const { panels, title, begin, end, caption } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

// Grafana's grid has 24 columns. Its light theme and its classic palette:
const COLUMN = 56;
const ROW = 33;
const GAP = 8;
const TOP = 78;
const COLORS = ['#73BF69', '#F2CC0C', '#8AB8FF', '#FF780A', '#F2495C', '#5794F2', '#B877D9', '#705DA0', '#37872D', '#FADE2A', '#C15C17'];
const CHARACTER = 5.9;

const escape = (text) => String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
const round = (number) => String(Math.round(number * 10) / 10);

function text(x, y, content, { size = 11, color = '#6a7077', anchor = 'start', weight = 400 } = {}) {
  return `<text x="${round(x)}" y="${round(y)}" font-size="${size}" fill="${color}" text-anchor="${anchor}" `
    + `font-weight="${weight}">${escape(content)}</text>`;
}

// -- axes ---------------------------------------------------------------------

// Grafana's units: the first scale that fits the greatest value, and what is written behind it.
const UNITS = {
  ops: [[1e3, 'K ops/s'], [1, ' ops/s']],
  s: [[60, ' mins'], [1, ' s'], [1e-3, ' ms'], [1e-6, ' µs']],
  short: [[1e6, ' Mil'], [1e3, ' K'], [1, '']],
  percentunit: [[0.01, '%']],
  Bps: [[1e6, ' MB/s'], [1e3, ' kB/s'], [1, ' B/s']],
};

function axis(unit, greatest) {
  const scales = UNITS[unit];
  // Minutes are for more than two of them.
  const [scale, suffix] = scales.find(([least]) => greatest >= (least === 60 ? 120 : least)) ?? scales.at(-1);
  const most = (greatest || scale) / scale;
  const power = 10 ** Math.floor(Math.log10(most / 4));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= most / 4 * (1 - 1e-9));
  const digits = [0, 1, 2, 3, 4].find((n) => Math.abs(step - step.toFixed(n)) < step / 100);
  const ticks = Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, n) => n * step);
  return { top: ticks.at(-1) * scale, ticks: ticks.map((value) => ({ value: value * scale, label: value.toFixed(digits) + suffix })) };
}

// Full seconds at which the axis of time has a mark.
function instants() {
  const step = [5, 10, 15, 30, 60, 120, 300].find((seconds) => (end - begin) / seconds <= 5) ?? 600;
  const marks = [];
  for (let at = Math.ceil(begin / step) * step; at <= end; at += step) marks.push(at);
  return marks;
}

const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);

// -- panels -------------------------------------------------------------------

// The lines of a series: it has a gap where there is no value. What lies on a level line is left out.
function line(values, x, y) {
  const parts = [];
  let part = [];
  values.forEach(([at, value], i) => {
    if (i > 0 && at - values[i - 1][0] > 2.5) parts.push(part = []);
    if (i === 0) parts.push(part);
    const point = `${round(x(at))} ${round(y(value))}`;
    const level = part.length > 1 && part.at(-1).split(' ')[1] === point.split(' ')[1] && part.at(-2).split(' ')[1] === point.split(' ')[1];
    if (level) part[part.length - 1] = point;
    else part.push(point);
  });
  return parts.map((points) => `M${points.join('L')}${points.length === 1 ? 'h1' : ''}`).join('');
}

// The names below a panel, in as many rows as they need.
function legend(series, left, width) {
  const rows = [];
  let x = left + width;
  for (const { name, color } of series) {
    const length = 30 + name.length * CHARACTER;
    if (x + length > left + width) {
      rows.push([]);
      x = left;
    }
    rows.at(-1).push({ x, name, color });
    x += length;
  }
  return rows;
}

function draw(panel) {
  const { x: column, y: row, w, h } = panel.gridPos;
  const left = GAP + column * COLUMN;
  const top = TOP + row * ROW;
  const width = w * COLUMN - GAP;
  const height = h * ROW - GAP;
  const series = panel.targets.flatMap((target) => target.series)
    .map(({ name, values }, i) => ({ name, color: COLORS[i % COLORS.length],
      values: values.map(([at, value]) => [at, Number(value)]).filter(([, value]) => Number.isFinite(value)) }))
    .filter(({ values }) => values.length > 0);
  const parts = [`<rect x="${left}" y="${top}" width="${width}" height="${height}" rx="2" fill="#fff" stroke="#dfe1e4"/>`,
    text(left + 9, top + 21, panel.title, { size: 13, color: '#24292e', weight: 500 })];
  if (panel.description) {
    parts.push(`<circle cx="${left + width - 16}" cy="${top + 17}" r="6" fill="none" stroke="#9fa7b3"/>`,
      text(left + width - 16, top + 20, 'i', { size: 9, color: '#9fa7b3', anchor: 'middle', weight: 700 }), `<title>${escape(panel.description)}</title>`);
  }
  if (series.length === 0) {
    parts.push(text(left + width / 2, top + height / 2 + 8, 'No data', { size: 14, anchor: 'middle' }));
    return `<g>${parts.join('\n')}</g>`;
  }

  const rows = legend(series, left + 10, width - 20);
  const { top: most, ticks } = axis(panel.fieldConfig.defaults.unit,
    Math.max(...series.flatMap(({ values }) => values.map(([, value]) => value))));
  const inner = { left: left + 18 + CHARACTER * Math.max(...ticks.map(({ label }) => label.length)), right: left + width - 14,
    top: top + 36, bottom: top + height - 28 - 15 * rows.length };
  const x = (at) => inner.left + (at - begin) / (end - begin) * (inner.right - inner.left);
  const y = (value) => inner.bottom - value / most * (inner.bottom - inner.top);
  for (const { value, label } of ticks) {
    parts.push(`<path d="M${round(inner.left)} ${round(y(value))}H${round(inner.right)}" stroke="#eceef0"/>`,
      text(inner.left - 7, y(value) + 4, label, { anchor: 'end' }));
  }
  for (const at of instants()) {
    parts.push(`<path d="M${round(x(at))} ${round(inner.top)}V${round(inner.bottom)}" stroke="#eceef0"/>`);
    if (x(at) - inner.left > 20 && inner.right - x(at) > 20) parts.push(text(x(at), inner.bottom + 15, clock(at), { anchor: 'middle' }));
  }
  for (const { values, color } of series) {
    parts.push(`<path d="${line(values, x, y)}" fill="none" stroke="${color}" stroke-width="1.4" stroke-linejoin="round"/>`);
  }
  rows.forEach((names, i) => names.forEach(({ x: at, name, color }) => {
    const middle = inner.bottom + 32 + 15 * i;
    parts.push(`<path d="M${round(at)} ${round(middle)}h13" stroke="${color}" stroke-width="3"/>`, text(at + 18, middle + 4, name));
  }));
  return `<g>${parts.join('\n')}</g>`;
}

// -- the page -----------------------------------------------------------------

const width = 24 * COLUMN + GAP;
const height = TOP + ROW * Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h));

function selectors() {
  let x = GAP;
  return [['Data source', 'Prometheus'], ['Exporter', 'All'], ['Database', 'All']].map(([name, value]) => {
    const long = [name, value].map((word) => word.length * 6.6 + 18);
    const parts = `<rect x="${round(x)}" y="44" width="${round(long[0] + long[1])}" height="24" rx="2" fill="#fff" stroke="#c7ccd1"/>
${text(x + 9, 60, name, { size: 12, color: '#24292e', weight: 500 })}${text(x + long[0] + 6, 60, value, { size: 12, color: '#24292e' })}`;
    x += long[0] + long[1] + 10;
    return parts;
  }).join('\n');
}

console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="Inter, Helvetica, Arial, sans-serif">
<title>The dashboard for Grafana: ${escape(panels.map((panel) => panel.title).join('; '))}</title>
<rect width="100%" height="100%" fill="#f4f5f5"/>
${text(GAP + 2, 27, title, { size: 18, color: '#24292e', weight: 500 })}
${text(width - GAP, 27, caption, { size: 12, anchor: 'end' })}
${text(width - GAP, 60, `${clock(begin)} to ${clock(end)} UTC`, { size: 12, color: '#24292e', anchor: 'end' })}
${selectors()}
${panels.map(draw).join('\n')}
</svg>`);
