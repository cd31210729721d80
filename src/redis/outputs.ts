import { z } from "zod";
import type { RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { parseStored } from "./run-codec.ts";

/** Characters of a piece; so much is read for the shortest range. */
const pieceLength = 65_536;
/** Pieces written at a time: a megabyte of text or so, so that others are not held up. */
const piecesAtOnce = 16;

const pieceSchema = z.string();

/**
 * What was cut out of results. A hash per run: `<ref>` holds the length, `<ref>:<number>` a piece as JSON text, in which
 * also half of a surrogate pair survives that falls between two pieces. The length is written last: a text is there as a
 * whole or not at all.
 */
export function createOutputs(connection: RedisConnection, keys: Keys): Pick<RunStore, "putOutput" | "readOutput"> {
  return {
    async putOutput(runId, ref, text) {
      const { outputs } = keys.run(runId);
      const count = Math.ceil(text.length / pieceLength);
      for (let first = 0; first < count; first += piecesAtOnce) {
        const fields: string[] = [];
        for (let piece = first; piece < Math.min(first + piecesAtOnce, count); piece++) {
          fields.push(`${ref}:${piece}`, JSON.stringify(text.slice(piece * pieceLength, (piece + 1) * pieceLength)));
        }
        await connection.use((client) => client.hset(outputs, ...fields));
      }
      await connection.use((client) => client.hset(outputs, ref, text.length));
    },

    async readOutput(runId, ref, from, to) {
      const { outputs } = keys.run(runId);
      const stored = await connection.use((client) => client.hget(outputs, ref));
      if (stored === null) return undefined;
      const start = Math.min(Math.max(0, from), Number(stored));
      const end = Math.min(to, Number(stored));
      let text = "";
      for (let piece = Math.floor(start / pieceLength); piece * pieceLength < end; piece++) {
        const json = await connection.use((client) => client.hget(outputs, `${ref}:${piece}`));
        const whole = parseStored(pieceSchema, json ?? "", `output ${ref} of run ${runId}`);
        text += whole.slice(Math.max(0, start - piece * pieceLength), end - piece * pieceLength);
      }
      return text;
    },
  };
}
