/** What stands beside the rows of a diff: the verdict above them, the details of a call below. */
import { button, el } from '../dom/build.ts';
import { changeCounts, type Comparison, type Side } from '../model/comparison.ts';
import { cellText, ownColumns, spoken } from '../model/names.ts';
import { show } from '../text.ts';
import { count, deltaText, plural } from '../words.ts';

/** What can differ of what was said: calls with other prompts are other calls. */
const ANSWERS = ['output', 'structured', 'error_message'];

/** What the kernel knows of the comparison as a whole. */
export interface DiffFacts {
  readonly verdict?: string;
  readonly comparable?: boolean;
  readonly issues?: readonly string[];
  readonly policy_changes?: readonly string[];
  readonly expected?: string;
  readonly actual?: string;
}

/** What changed as a whole: the verdict, and under it issues, policy and timing. */
export function verdictOf(comparison: Comparison, facts: DiffFacts): HTMLElement {
  const counts = changeCounts(comparison.change);
  const changes = [
    counts.outcomes > 0 ? `${plural(counts.outcomes, 'outcome')} changed` : '',
    counts.boundaries > 0 ? `${plural(counts.boundaries, 'boundary', 'boundaries')} changed` : '',
    counts.added > 0 ? `${count(counts.added)} added` : '',
    counts.removed > 0 ? `${count(counts.removed)} removed` : '',
    (facts.policy_changes?.length ?? 0) > 0 ? plural(facts.policy_changes!.length, 'policy change') : '',
  ].filter((part) => part !== '');
  const issues = facts.issues ?? [];
  const comparable = facts.comparable ?? issues.length === 0;
  const kind = !comparable ? 'incomparable' : changes.length > 0 ? 'different' : 'equivalent';
  const words =
    kind === 'incomparable'
      ? 'not comparable'
      : kind === 'different'
        ? `different: ${changes.join(', ')}`
        : `equivalent: ${plural(comparison.size, 'call')}, same outcomes`;
  const element = el('div', { class: 'clab-verdict', 'data-verdict': kind, role: 'status' }, show(facts.verdict ?? words));
  const notes = [
    ...issues.map((issue) => `issue: ${show(issue)}`),
    ...(facts.policy_changes ?? []).map((name) => `policy: ${show(name)} differs`),
    balance(comparison),
  ];
  element.append(el('ul', {}, ...notes.filter((note) => note !== '').map((note) => el('li', {}, note))));
  return element;
}

function balance(comparison: Comparison): string {
  const both = comparison.delta.filter((each) => !Number.isNaN(each));
  if (both.length === 0) return '';
  const slower = both.filter((each) => each > 0.05).length;
  const quicker = both.filter((each) => each < -0.05).length;
  const sum = both.reduce((all, each) => all + each, 0);
  return `timing: ${plural(both.length, 'call')} in both, ${count(slower)} slower, ${count(quicker)} quicker, together ${deltaText(sum)}`;
}

/** What is known of one call on both sides; what is equal is said once, or left out. */
export function callDetail(comparison: Comparison, node: number): HTMLElement[] {
  const sides = [
    [comparison.expected.table, comparison.expectedRow[node]!],
    [comparison.actual.table, comparison.actualRow[node]!],
  ] as const;
  const list = el('dl', {});
  for (const name of ownColumns(comparison.actual.table)) {
    const texts = sides.map(([table, row]) => (row < 0 ? '–' : cellText(table, name, row)));
    if (texts[0] === texts[1] && !['label', 'call_key', 'stop_reason', 'duration_ms'].includes(name)) continue;
    list.append(el('dt', {}, spoken(name)), el('dd', {}, texts[0] === texts[1] ? texts[0]! : `${texts[0]!} → ${texts[1]!}`));
  }
  return sides.every(([table]) => table.names.includes('output')) ? [list, bodiesOf(sides)] : [list];
}

/** What was said, of both sides; only where both were loaded with bodies, and only when asked for. */
function bodiesOf(sides: readonly (readonly [Side['table'], number])[]): HTMLElement {
  const place = el('div', {});
  place.append(
    button('show texts side by side', () => {
      const parts = sides.map(([table, row]) => {
        const texts = row < 0 ? [] : ANSWERS.map((name) => table.text(name, row)).filter((text) => text !== null);
        return el(
          'div',
          {},
          ...(texts.length === 0
            ? [el('p', {}, 'nothing')]
            : texts.map((text) => el('pre', {}, text.split('\n').map(show).join('\n')))),
        );
      });
      place.replaceChildren(el('div', { class: 'clab-sides' }, ...parts));
    }),
  );
  return place;
}
