// The commands of docs/operations.md, as they stand there: those of a row of a table, or those of a block
// of sh below a heading.

import { readFileSync } from 'node:fs';

const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');

// What is below a heading.
function section(heading) {
  const [, text] = page.split(`\n${heading}\n`);
  if (text === undefined) throw new Error(`docs/operations.md has no ${heading}`);
  return text.split(/\n#+ /)[0];
}

// The command of a row of the runbooks under Patroni.
export function commandTo(purpose) {
  const row = section('### Runbooks').split('\n').find((line) => line.startsWith(`| ${purpose} |`));
  const [, command] = row?.match(/`(patronictl -c [^`]*)`/) ?? [];
  if (!command) throw new Error(`docs/operations.md has no command to ${purpose}`);
  return command;
}

// The command for recovery that has this word.
export function recoveryBy(word) {
  const lines = section('## Recovery to a point in time').match(/```sh\n([^]*?)```/)[1].replaceAll('\\\n', ' ').split('\n');
  const found = lines.filter((line) => line.includes(word));
  if (found.length !== 1) throw new Error(`docs/operations.md has ${found.length} commands with ${word} for recovery`);
  return found[0];
}

// The command with other words in the place of some of its own.
export function filledIn(command, words) {
  const missing = Object.keys(words).find((word) => !command.includes(word));
  if (missing) throw new Error(`"${command}" has no ${missing}`);
  const any = Object.keys(words).map((word) => word.replace(/[.+*?^$()[\]{}|\\/]/g, '\\$&')).join('|');
  return any ? command.replace(new RegExp(any, 'g'), (word) => words[word]) : command;
}
