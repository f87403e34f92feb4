/** Colours and fonts of the page that a view stands in, as a canvas needs them: resolved. */

export type ThemeChoice = 'auto' | 'light' | 'dark';

export interface Theme {
  readonly dark: boolean;
  readonly ink: string;
  readonly muted: string;
  readonly faint: string;
  readonly grid: string;
  readonly paper: string;
  readonly band: string;
  readonly accent: string;
  readonly chosen: string;
  readonly chosenPale: string;
  readonly slower: string;
  readonly quicker: string;
  readonly font: string;
  readonly bold: string;
  readonly small: string;
}

/** Read the theme from the custom properties that the style sheet gives the root of a view. */
export function readTheme(root: HTMLElement): Theme {
  const style = getComputedStyle(root);
  const of = (name: string): string => style.getPropertyValue(`--clab-${name}`).trim() || '#888';
  const family = style.fontFamily || 'system-ui, sans-serif';
  return {
    dark: root.dataset['tone'] === 'dark',
    ink: of('ink'),
    muted: of('muted'),
    faint: of('faint'),
    grid: of('grid'),
    paper: of('paper'),
    band: of('band'),
    accent: of('accent'),
    chosen: of('chosen'),
    chosenPale: of('chosen-pale'),
    slower: of('slower'),
    quicker: of('quicker'),
    font: `12px ${family}`,
    bold: `600 12px ${family}`,
    small: `11px ${family}`,
  };
}

/**
 * Say on the root whether the page is dark: as chosen, else as the page's own ground says where it has one, else as the
 * person's system prefers.
 */
export function markTone(root: HTMLElement, choice: ThemeChoice): void {
  delete root.dataset['tone'];
  root.dataset['tone'] = choice === 'auto' ? pageTone(root) : choice;
}

function pageTone(root: HTMLElement): 'light' | 'dark' {
  const jupyter = getComputedStyle(root).getPropertyValue('--jp-layout-color0').trim();
  if (jupyter !== '') {
    const luminance = luminanceOf(root, jupyter);
    if (luminance !== null) return luminance < 0.4 ? 'dark' : 'light';
  }
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

function luminanceOf(root: HTMLElement, colour: string): number | null {
  const probe = root.ownerDocument.createElement('span');
  probe.style.color = colour;
  root.append(probe);
  const parts = /rgba?\(([\d.]+)[, ]+([\d.]+)[, ]+([\d.]+)/.exec(getComputedStyle(probe).color);
  probe.remove();
  if (parts === null) return null;
  return (0.2126 * Number(parts[1]) + 0.7152 * Number(parts[2]) + 0.0722 * Number(parts[3])) / 255;
}

/** Tell when the page may look different from now on; returns what ends the watch. */
export function watchTheme(root: HTMLElement, changed: () => void): () => void {
  const { body, documentElement } = root.ownerDocument;
  const observer = new MutationObserver(changed);
  const watched = {
    attributes: true,
    attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light', 'class', 'style', 'data-theme'],
  };
  observer.observe(body, watched);
  observer.observe(documentElement, watched);
  const media = matchMedia('(prefers-color-scheme: dark)');
  media.addEventListener('change', changed);
  return () => {
    observer.disconnect();
    media.removeEventListener('change', changed);
  };
}
