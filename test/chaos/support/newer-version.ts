// Loaded before a worker's program: makes it one of a newer version, whose records older ones must not touch and which
// bear a field that those do not know. Its source is changed as it is read; all else is the same.
import { registerHooks } from "node:module";

const newer = 99;

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (!url.endsWith("/src/core/run.ts") || loaded.source === undefined || loaded.source === null) return loaded;
    const text = typeof loaded.source === "string" ? loaded.source : new TextDecoder().decode(loaded.source);
    const source = text
      .replace(/export const schemaVersion = \d+;/, `export const schemaVersion = ${newer};`)
      .replace(/export const minReader = \d+;/, `export const minReader = ${newer};`);
    if (source === text) throw new Error("the version is written otherwise now");
    return { ...loaded, source };
  },
});
