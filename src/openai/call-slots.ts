import type { Extra } from "../core/message.ts";

/** One tool call while its pieces arrive. */
export type CallSlot = {
  index?: number | undefined;
  id?: string | undefined;
  name?: string | undefined;
  arguments: string;
  extra: Extra;
};

/** A piece of a call, tidied: empty ids and names are absent, arguments are text. */
export type CallDelta = {
  index?: number | undefined;
  id?: string | undefined;
  name?: string | undefined;
  arguments: string;
  extra: Extra;
};

/**
 * Adds a piece to the call it belongs to, or begins a new call with it. Servers number calls wrongly, change or omit
 * ids, repeat names and repeat whole calls; what tells two calls apart is weighed in `beginsAnother`.
 *
 * @param toolNames names that were offered.
 */
export function addCallDelta(slots: CallSlot[], delta: CallDelta, toolNames: ReadonlySet<string>): void {
  const slot = findSlot(slots, delta);
  const name = slot && joinedName(slot, delta, toolNames);
  if (!slot || (name === undefined && beginsAnother(slot, delta))) {
    slots.push({ ...delta, extra: { ...delta.extra } });
    return;
  }
  slot.id ??= delta.id;
  slot.name = name ?? slot.name ?? delta.name;
  Object.assign(slot.extra, delta.extra);
  const repeated = delta.arguments === slot.arguments && isWholeObject(delta.arguments);
  if (!repeated) slot.arguments += delta.arguments;
}

/** The name of a call that comes in pieces: no tool so far, and not yet too long for one; undefined if it does not. */
function joinedName(slot: CallSlot, delta: CallDelta, toolNames: ReadonlySet<string>): string | undefined {
  if (slot.name === undefined || delta.name === undefined || slot.arguments !== "") return undefined;
  if (toolNames.has(slot.name) || (delta.id !== undefined && slot.id !== undefined && delta.id !== slot.id))
    return undefined;
  const joined = delta.name.startsWith(slot.name) ? delta.name : slot.name + delta.name;
  return [...toolNames].some((name) => name.startsWith(joined)) ? joined : undefined;
}

function findSlot(slots: readonly CallSlot[], delta: CallDelta): CallSlot | undefined {
  const sameId = (slot: CallSlot): boolean => delta.id !== undefined && slot.id === delta.id;
  if (delta.index === undefined) return slots.findLast(sameId) ?? slots.at(-1);
  const sameIndex = slots.filter((slot) => slot.index === delta.index);
  return sameIndex.findLast(sameId) ?? sameIndex.at(-1);
}

/** Whether a piece that would land in `slot` is really the start of another call. */
function beginsAnother(slot: CallSlot, delta: CallDelta): boolean {
  if (delta.name === undefined || slot.name === undefined) return false;
  if (delta.id !== undefined && slot.id !== undefined) return delta.id !== slot.id && !continues(slot, delta);
  const isWhole = isWholeObject(slot.arguments);
  // No ids to tell by: another name on the same index is another call once the first has all it needs.
  if (delta.name !== slot.name) return delta.index === undefined || slot.arguments === "" || isWhole;
  return isWhole && delta.arguments !== "" && delta.arguments !== slot.arguments;
}

/** Two ids are two calls, unless the server makes a new id for each piece of one call. */
function continues(slot: CallSlot, delta: CallDelta): boolean {
  return delta.name === slot.name && !isWholeObject(slot.arguments) && isFragment(delta.arguments);
}

function isFragment(text: string): boolean {
  return text !== "" && !isWholeObject(text);
}

/** Whether the text is a complete JSON object. */
function isWholeObject(text: string): boolean {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{") || !trimmed.endsWith("}")) return false;
  try {
    JSON.parse(trimmed);
    return true;
  } catch {
    return false;
  }
}
