/** Draws in the next frame, however often that is asked for, and whenever `element` has got another size. */
export class Redraw {
  #queued = 0;
  readonly #resizes: ResizeObserver;

  constructor(
    element: HTMLElement,
    private readonly draw: () => void,
  ) {
    this.#resizes = new ResizeObserver(() => {
      this.soon();
    });
    this.#resizes.observe(element);
  }

  soon(): void {
    if (this.#queued === 0) this.#queued = requestAnimationFrame(this.draw);
  }

  /** What was asked for is drawn now, and not again in the next frame. */
  done(): void {
    cancelAnimationFrame(this.#queued);
    this.#queued = 0;
  }

  dispose(): void {
    this.done();
    this.#resizes.disconnect();
  }
}
