// BullMQ makes a score of a number times a width and a counter, so that jobs of the same number stay in order.

/** Of a priority, in `prioritized`. */
export const classWidth = 0x1_0000_0000;
/** Of a due time, in `delayed`. */
export const millisecond = 0x1000;

/** The class of a score in `prioritized`; infinite for one without an end, which another program put there. */
export function classOf(score: string): number {
  return Math.floor(toNumber(score) / classWidth);
}

/** When a job of that score in `delayed` is due (epoch ms); infinite for one that never is. */
export function dueAtOf(score: string): number {
  return Math.max(0, Math.floor(toNumber(score) / millisecond));
}

/** Redis writes `inf` and `-inf`. */
function toNumber(score: string): number {
  return Number(score.replace("inf", "Infinity"));
}
