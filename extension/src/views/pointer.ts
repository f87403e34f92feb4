/** The mouse over a waterfall: click, double click, brush, pan, zoom, and the divider between tree and bars. */
import { timeOf } from '../draw/marks.ts';
import type { State } from './state.ts';
import { HEAD_HEIGHT, type Waterfall } from './waterfall.ts';

const DRAG_PX = 4;

export function followPointer(view: Waterfall, state: State): void {
  const { canvas } = view.rows;
  let drag: { kind: 'brush' | 'pan' | 'split'; x: number; moved: boolean; from: number } | null = null;
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button > 1) return;
    const { x, y } = view.rows.locate(event);
    if (Math.abs(x - view.split) <= 4) drag = { kind: 'split', x, moved: false, from: 0 };
    else if (x > view.split && (y < HEAD_HEIGHT || event.button === 1))
      drag = { kind: 'pan', x, moved: false, from: view.from };
    else if (x > view.split && view.look === 'timeline') drag = { kind: 'brush', x, moved: false, from: timeOf(view.scale, x) };
    if (drag !== null) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    const { x, y, row } = view.rows.locate(event);
    if (drag === null) {
      canvas.style.cursor =
        Math.abs(x - view.split) <= 4 ? 'col-resize' : y < HEAD_HEIGHT && x > view.split ? 'grab' : 'default';
      const node = row < 0 ? -1 : state.visible[row]!;
      if (node !== state.hover) {
        state.hover = node;
        state.tell('hover');
      }
      return;
    }
    drag.moved ||= Math.abs(x - drag.x) > DRAG_PX;
    if (!drag.moved) return;
    if (drag.kind === 'split') view.setSplit(x);
    else if (drag.kind === 'pan') {
      const { left, right } = view.scale;
      const by = ((x - drag.x) / (right - left)) * (view.to - view.from);
      view.see(drag.from - by, drag.from - by + (view.to - view.from));
    } else {
      const at = Math.max(0, timeOf(view.scale, x));
      state.range = [Math.max(0, Math.min(at, drag.from)), Math.max(at, drag.from)];
      view.moved();
    }
  });
  canvas.addEventListener('pointerup', (event) => {
    const done = drag;
    drag = null;
    if (done?.moved === true) {
      if (done.kind === 'brush' && state.range !== null) state.choose([], state.range);
      return;
    }
    const { x, row } = view.rows.locate(event);
    const node = state.visible[row];
    if (row < 0 || node === undefined || done?.kind === 'split') return;
    view.rows.element.focus({ preventScroll: true });
    view.rows.activate(row, false);
    if (view.isTwisty(node, x)) state.fold(node, state.folded[node] === 0);
    else view.pick(node, event.shiftKey || event.ctrlKey || event.metaKey);
  });
  canvas.addEventListener('pointercancel', () => {
    drag = null;
  });
  canvas.addEventListener('pointerleave', () => {
    if (state.hover < 0) return;
    state.hover = -1;
    state.tell('hover');
  });
  canvas.addEventListener('dblclick', (event) => {
    const { x, y, row } = view.rows.locate(event);
    const node = state.visible[row];
    if (y < HEAD_HEIGHT && x > view.split) view.see(0, view.whole);
    else if (node !== undefined && !view.isTwisty(node, x)) state.fold(node, state.folded[node] === 0);
  });
  view.rows.element.addEventListener(
    'wheel',
    (event) => {
      const { x } = view.rows.locate(event);
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey || event.metaKey)
        view.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 200), timeOf(view.scale, x));
      else if (sideways !== 0 && Math.abs(sideways) >= Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        view.pan((sideways / Math.max(1, view.scale.right - view.scale.left)) * (view.to - view.from));
      } else return;
      event.preventDefault();
    },
    { passive: false },
  );
}
