/** By a symbol of the whole process: an agents file may bring a copy of this package of its own. */
const listenerSymbol: symbol = Symbol.for("drover.effects");
type Listener = (key: string, what: string) => void;
type Global = { [listenerSymbol]?: Listener | undefined };

/**
 * Tells `drover chaos` that an effect takes place, so that one which takes place twice under one idempotency key is found.
 * Call it in a tool where the other side would change something. It does nothing anywhere else. Without it an idempotent tool
 * is not judged: that its results differ under one key is told as a hint.
 *
 * @param key the `idempotencyKey` of the tool's context.
 * @param what names the effect where a call has several; default "effect".
 */
export function recordEffect(key: string, what: string = "effect"): void {
  (globalThis as Global)[listenerSymbol]?.(key, what);
}

/** Hears of effects until released. */
export function noteEffects(listener: Listener): () => void {
  const place = globalThis as Global;
  const before = place[listenerSymbol];
  place[listenerSymbol] = listener;
  return () => {
    place[listenerSymbol] = before;
  };
}
