/** How numbers read to people. The twin of `words.py` in the Python package: the same rules, the same spellings. */
export const UNKNOWN = '–';
const MINUS = '−';
const SPACE = ' ';

/** `0.4 ms`, `840 ms`, `12.4 s`, `3 min 05 s`, `2 h 07 min`; unknown is a dash. */
export function durationText(ms: number | null): string {
  if (ms === null || Number.isNaN(ms)) return UNKNOWN;
  if (ms < 0) return MINUS + durationText(-ms);
  if (ms < 0.05) return ms === 0 ? '0 ms' : '< 0.1 ms';
  if (ms < 9.95) return `${fixed(ms, 1)}${SPACE}ms`;
  if (ms < 999.5) return `${fixed(ms, 0)}${SPACE}ms`;
  const seconds = ms / 1000;
  if (seconds < 59.95) return `${fixed(seconds, 1)}${SPACE}s`;
  if (seconds < 3_599.5) return two(seconds, 60, 'min', 1, 's');
  if (seconds < 86_370) return two(seconds, 3_600, 'h', 60, 'min');
  if (seconds < 1e12) return two(seconds, 86_400, 'd', 3_600, 'h');
  return `${(seconds / 86_400).toExponential(1).replace(/\+(\d)$/, '+0$1')} d`;
}

/** With so many decimals (0 or 1); exact halves go to the even digit, as Python has it. */
function fixed(value: number, decimals: 0 | 1): string {
  const half = decimals === 1 ? (value % 1 === 0.25 ? 0.05 : 0) : value % 2 === 0.5 ? 0.5 : 0;
  return (value - half).toFixed(decimals);
}

function two(seconds: number, largeSeconds: number, large: string, smallSeconds: number, small: string): string {
  const all = Number(fixed(seconds / smallSeconds, 0));
  const many = largeSeconds / smallSeconds;
  return `${count(Math.floor(all / many))} ${large} ${String(all % many).padStart(2, '0')} ${small}`;
}

/** A difference of durations with its sign: `+120 ms`, `−1.2 s`; below 0.05 ms it is `±0 ms`. */
export function deltaText(ms: number): string {
  if (Number.isNaN(ms)) return UNKNOWN;
  if (Math.abs(ms) < 0.05) return '±0 ms';
  return ms < 0 ? durationText(ms) : `+${durationText(ms)}`;
}

/** A difference in percent of what was expected; from ten times on a factor. */
export function deltaPercent(expectedMs: number, actualMs: number): string {
  if (!(expectedMs > 0) || Number.isNaN(actualMs)) return UNKNOWN;
  const share = (100 * (actualMs - expectedMs)) / expectedMs;
  if (share > 999) return share < 1e8 ? `×${count(actualMs / expectedMs)}` : 'more';
  if (Math.abs(share) < 0.5) return '±0 %';
  return `${share < 0 ? MINUS : '+'}${count(Math.abs(share))} %`;
}

/** A share: `38 %`, `< 1 %`, `> 99 %`; of nothing it is a dash. */
export function percentText(part: number, whole: number): string {
  if (!(whole > 0)) return UNKNOWN;
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 1) return '< 1 %';
  if (percent > 99 && percent < 100) return '> 99 %';
  return `${fixed(percent, 0)} %`;
}

/** `5,000`, whatever the browser's language. */
export function count(value: number): string {
  return separated(fixed(value, 0));
}

/** Thousands apart. The browser's own way to do that takes fifty times as long. */
function separated(digits: string): string {
  return digits.replace(/(?<!\..*)\B(?=(?:\d{3})+(?!\d))/g, ',');
}

/** `1 call`, `5,000 calls`. */
export function plural(number: number, noun: string, many = `${noun}s`): string {
  return `${count(number)} ${number === 1 ? noun : many}`;
}

/** A number in a table cell: whole ones with separators, others with three digits. */
export function numberText(value: number): string {
  if (Number.isNaN(value)) return UNKNOWN;
  if (!Number.isFinite(value) || Math.abs(value) >= 1e15) return String(value);
  const [whole = '', decimals = ''] = String(Number(value.toFixed(Math.abs(value) < 100 ? 3 : 1))).split('.');
  return separated(whole) + (decimals === '' ? '' : `.${decimals}`);
}

/** A moment: `2026-11-02 09:00:14.488`, UTC. */
export function momentText(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? UNKNOWN : date.toISOString().replace('T', ' ').replace('Z', '');
}

/** A time on an axis that ends at `last`, all in the unit that fits it: `250 ms`, `2.5 s`, `1:30 min`, `2:05 h`, `12 d`. */
export function axisText(ms: number, step: number, last: number): string {
  const decimals = (of: number): number => Math.min(6, Math.max(0, -Math.floor(Math.log10(of) + 1e-9)));
  if (last < 2_000) return `${ms.toFixed(decimals(step))} ms`;
  if (last < 120_000) return `${(ms / 1_000).toFixed(decimals(step / 1_000))} s`;
  if (last >= 4 * 86_400_000) return `${separated((ms / 86_400_000).toFixed(decimals(step / 86_400_000)))} d`;
  const [large, small, unit] = last < 7_200_000 ? [60_000, 1_000, 'min'] : [3_600_000, 60_000, 'h'];
  const rest = (ms % large) / small;
  const digits =
    step < small
      ? rest.toFixed(decimals(step / small)).padStart(3 + decimals(step / small), '0')
      : String(Math.round(rest)).padStart(2, '0');
  return `${Math.floor(ms / large)}:${digits} ${unit}`;
}
