/**
 * The style sheet of all views. It is adopted as a sheet of the document (or shadow root) and never written as a `style`
 * attribute or element, so that the strictest policy of a page lets it through.
 */
const CSS = `
.clab-view {
  --clab-ink: var(--jp-ui-font-color1, var(--clab-page-ink, #1b1f24));
  --clab-muted: var(--jp-ui-font-color2, var(--clab-page-muted, #59636e));
  --clab-faint: var(--clab-page-muted, #6a737d);
  --clab-grid: var(--jp-border-color2, var(--clab-page-grid, #d8dee4));
  --clab-paper: var(--jp-layout-color0, var(--clab-page-paper, #ffffff));
  --clab-band: color-mix(in srgb, var(--jp-layout-color2, #edf0f3) 60%, var(--clab-paper));
  --clab-accent: var(--jp-brand-color1, #0969da);
  --clab-chosen: rgba(56, 132, 244, 0.20);
  --clab-chosen-pale: rgba(56, 132, 244, 0.08);
  --clab-slower: #d55e00;
  --clab-quicker: #0072b2;
  box-sizing: border-box;
  position: relative;
  display: flex;
  flex-direction: column;
  min-height: 120px;
  overflow: hidden auto;
  container-type: inline-size;
  color: var(--clab-ink);
  background: var(--clab-paper);
  border: 1px solid var(--clab-grid);
  border-radius: 6px;
  font-family: var(--jp-ui-font-family, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif);
  font-size: 12px;
  line-height: 1.4;
  font-variant-numeric: tabular-nums;
  color-scheme: light;
}
.clab-view[data-tone="dark"] {
  --clab-ink: var(--jp-ui-font-color1, var(--clab-page-ink, #e6edf3));
  --clab-muted: var(--jp-ui-font-color2, var(--clab-page-muted, #9da7b3));
  --clab-faint: var(--clab-page-muted, #8b949e);
  --clab-grid: var(--jp-border-color2, var(--clab-page-grid, #333b45));
  --clab-paper: var(--jp-layout-color0, var(--clab-page-paper, #0f1318));
  --clab-band: color-mix(in srgb, var(--jp-layout-color2, #222a33) 60%, var(--clab-paper));
  --clab-accent: var(--jp-brand-color1, #58a6ff);
  --clab-chosen: rgba(88, 166, 255, 0.28);
  --clab-chosen-pale: rgba(88, 166, 255, 0.11);
  --clab-slower: #f0883e;
  --clab-quicker: #58a6ff;
  color-scheme: dark;
}
@media (forced-colors: active) {
  .clab-view, .clab-view[data-tone="dark"] {
    --clab-ink: CanvasText; --clab-muted: CanvasText; --clab-faint: CanvasText; --clab-grid: GrayText; --clab-paper: Canvas; --clab-accent: Highlight; --clab-slower: CanvasText; --clab-quicker: GrayText;
  }
}
.clab-view *, .clab-view *::before { box-sizing: border-box; }
.clab-view [hidden] { display: none !important; }
.clab-fill { flex: 1 1 0; min-height: 0; min-width: 0; }
.clab-head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 14px; padding: 7px 12px; border-bottom: 1px solid var(--clab-grid); }
.clab-title { font-weight: 600; font-size: 13px; overflow-wrap: anywhere; }
.clab-facts { color: var(--clab-muted); margin-inline-start: auto; }
.clab-trust { font-weight: 600; }
.clab-trust[data-state="verified"] { color: #00875f; }
.clab-trust[data-state="partial"], .clab-trust[data-state="unverified"] { color: #9a6700; }
.clab-trust[data-state="broken"] { color: #c04a00; }
[data-tone="dark"] .clab-trust[data-state="verified"] { color: #3fc795; }
[data-tone="dark"] .clab-trust[data-state="partial"], [data-tone="dark"] .clab-trust[data-state="unverified"] { color: #e3b341; }
[data-tone="dark"] .clab-trust[data-state="broken"] { color: #ff9757; }
.clab-bar { display: flex; flex-wrap: wrap; align-items: center; gap: 6px; padding: 5px 8px; border-bottom: 1px solid var(--clab-grid); background: var(--clab-band); }
.clab-view input[type="search"], .clab-view select, .clab-view button {
  font: inherit; color: var(--clab-ink); background: var(--clab-paper); border: 1px solid var(--clab-grid); border-radius: 4px; height: 24px; padding: 0 7px; margin: 0;
}
.clab-view input[type="search"] { width: 150px; flex: 0 1 150px; min-width: 110px; }
.clab-view select { width: auto; max-width: 112px; padding: 0 3px; text-overflow: ellipsis; }
.clab-view button { cursor: pointer; white-space: nowrap; }
.clab-view button:hover { border-color: var(--clab-accent); }
.clab-view button[aria-pressed="true"] { background: var(--clab-chosen); border-color: var(--clab-accent); }
.clab-view button:disabled { opacity: 0.45; cursor: default; }
.clab-view :focus-visible { outline: 2px solid var(--clab-accent); outline-offset: -2px; }
.clab-count { color: var(--clab-muted); flex: 1 1 60px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.clab-scroller { position: relative; overflow: auto; overscroll-behavior: contain; outline-offset: -2px; }
.clab-scroller:focus { outline: none; }
.clab-scroller:focus-visible { outline: 2px solid var(--clab-accent); }
.clab-canvas { position: sticky; inset-block-start: 0; inset-inline-start: 0; display: block; touch-action: pan-y; }
.clab-scroller[role="tree"] { min-height: 136px; }
.clab-spacer { width: 1px; }
.clab-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; top: 0; left: 0; }
.clab-strip { border-top: 1px solid var(--clab-grid); flex: none; position: relative; }
.clab-strip canvas { display: block; width: 100%; }
.clab-split { display: flex; border-top: 1px solid var(--clab-grid); flex: none; min-height: 0; }
.clab-split > * { min-width: 0; }
.clab-split > * + * { border-inline-start: 1px solid var(--clab-grid); }
.clab-panel { display: flex; flex-direction: column; min-height: 0; min-width: 0; }
.clab-panel-head { display: flex; align-items: center; gap: 6px; padding: 3px 10px; min-height: 30px; color: var(--clab-muted); flex: none; }
.clab-panel-head strong { color: var(--clab-ink); font-weight: 600; white-space: nowrap; }
.clab-panel-head span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.clab-view .clab-hint { color: var(--clab-faint); margin: 8px 0 0; }
.clab-detail { overflow: auto; padding: 2px 12px 8px; flex: 1; }
.clab-view .clab-detail dl { display: grid; grid-template-columns: max-content 1fr; gap: 1px 12px; margin: 0; }
.clab-view .clab-detail dt { color: var(--clab-muted); float: none; width: auto; margin: 0; font-weight: 400; }
.clab-view .clab-detail dd { float: none; width: auto; margin: 0; overflow-wrap: anywhere; }
.clab-view .clab-detail pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 2px 0 8px; padding: 6px 8px; background: var(--clab-band); border-radius: 4px; max-height: 220px; overflow: auto; font-family: var(--jp-code-font-family, ui-monospace, monospace); font-size: 11px; }
.clab-note { padding: 8px 12px; color: var(--clab-muted); }
.clab-message { padding: 28px 20px; text-align: center; color: var(--clab-muted); font-size: 13px; overflow-wrap: anywhere; }
.clab-message[role="alert"] { color: var(--clab-ink); text-align: start; padding: 14px 16px; border-inline-start: 4px solid #d55e00; background: var(--clab-band); }
.clab-progress { height: 3px; background: var(--clab-grid); flex: none; }
.clab-progress > div { height: 100%; background: var(--clab-accent); }
.clab-table { overflow: auto; position: relative; }
.clab-grid { position: relative; min-width: 100%; }
.clab-row { display: grid; position: absolute; inset-inline: 0; height: 22px; align-items: center; border-bottom: 1px solid color-mix(in srgb, var(--clab-grid) 55%, transparent); cursor: default; }
.clab-row[aria-selected="true"] { background: var(--clab-chosen); }
.clab-row.clab-active { box-shadow: inset 2px 0 0 var(--clab-accent); }
.clab-row > * { padding: 0 9px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.clab-row .clab-number { text-align: end; }
.clab-row.clab-columns { position: sticky; top: 0; z-index: 1; background: var(--clab-band); color: var(--clab-muted); height: 24px; }
.clab-row.clab-columns button { all: unset; cursor: pointer; display: block; width: 100%; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.clab-row.clab-columns button:focus-visible { outline: 2px solid var(--clab-accent); }
.clab-verdict { padding: 6px 12px; border-bottom: 1px solid var(--clab-grid); font-weight: 600; border-inline-start: 4px solid var(--clab-muted); }
.clab-verdict[data-verdict="equivalent"] { border-inline-start-color: #009e73; }
.clab-verdict[data-verdict="different"] { border-inline-start-color: #e69f00; }
.clab-verdict[data-verdict="incomparable"] { border-inline-start-color: #d55e00; }
.clab-view .clab-verdict ul { margin: 2px 0 0; padding-inline-start: 18px; font-weight: 400; color: var(--clab-muted); }
.clab-sides { display: grid; grid-template-columns: 1fr 1fr; gap: 0 14px; }
.clab-legend { display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 4px 12px; min-height: 25px; border-top: 1px solid var(--clab-grid); color: var(--clab-muted); flex: none; font-size: 11px; }
.clab-line { padding: 3px 12px; border-top: 1px solid var(--clab-grid); color: var(--clab-muted); flex: none; font-size: 11px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.clab-legend span { display: inline-flex; align-items: center; gap: 5px; }
@container (max-width: 620px) {
  .clab-split { flex-direction: column; }
  .clab-split:has(> * + *) { height: 270px !important; }
  .clab-split > * + * { border-inline-start: 0; border-top: 1px solid var(--clab-grid); }
  .clab-sides { grid-template-columns: 1fr; }
}
`;

const sheets = new WeakMap<Document, CSSStyleSheet>();

/** Give the sheet to the document or shadow root that a view stands in, once. */
export function adoptStyle(element: HTMLElement): void {
  const document = element.ownerDocument;
  const root = element.getRootNode();
  const place = root instanceof ShadowRoot ? root : document;
  let sheet = sheets.get(document);
  if (sheet === undefined) {
    // Of the document's own window: a sheet of another one cannot be adopted.
    sheet = new (document.defaultView ?? window).CSSStyleSheet();
    sheet.replaceSync(CSS);
    sheets.set(document, sheet);
  }
  if (!place.adoptedStyleSheets.includes(sheet)) place.adoptedStyleSheets.push(sheet);
}
