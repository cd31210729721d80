import { z } from "zod";
import type { RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { runScript } from "./read.ts";
import { parseStored } from "./run-codec.ts";

/** Characters of a piece; so much is read for the shortest range. */
const pieceLength = 65_536;
/** Pieces written or read at a time: a megabyte of text or so, so that others are not held up. */
const piecesAtOnce = 16;

/** A late result of a run that was removed meanwhile goes by itself, should nobody drop it. */
const keptWithoutRunMs = 3_600_000;

const pieceSchema = z.string();
const lengthSchema = z.int().nonnegative();

/** A script, since one that is too large for the server is given up in the end. KEYS: 1 the hash. ARGV: its fields. */
const keepScript = "return {redis.call('HSET', KEYS[1], unpack(ARGV))}";

type Outputs = Pick<RunStore, "putOutput" | "readOutput" | "dropOutputs">;

/**
 * What was cut out of results. A hash per run: `<ref>` holds the length, `<ref>:<number>` a piece as JSON text, in which
 * also half of a surrogate pair survives that falls between two pieces. The length is written last: a text is there as a
 * whole or not at all.
 */
export function createOutputs(connection: RedisConnection, keys: Keys): Outputs {
  return {
    async putOutput(runId, ref, text) {
      const { head, outputs } = keys.run(runId);
      for (const some of inBatches(0, Math.ceil(text.length / pieceLength))) {
        const args = some.flatMap((piece) => [`${ref}:${piece}`, JSON.stringify(pieceOf(text, piece))]);
        await connection.use((client) => runScript(client, keepScript, { keys: [outputs], args }));
      }
      const [, held] = await connection.use((client) =>
        Promise.all([client.hset(outputs, ref, text.length), client.exists(head)]),
      );
      if (held === 0) await connection.use((client) => client.pexpire(outputs, keptWithoutRunMs));
    },

    async readOutput(runId, ref, from, to) {
      const { outputs } = keys.run(runId);
      const what = `output ${ref} of run ${runId}`;
      const stored = await connection.use((client) => client.hget(outputs, ref));
      if (stored === null) return undefined;
      const length = parseStored(lengthSchema, stored, what);
      const start = Math.min(Math.max(0, from), length);
      const end = Math.min(to, length);
      let text = "";
      for (const some of inBatches(Math.floor(start / pieceLength), Math.ceil(end / pieceLength))) {
        const pieces = await connection.use((client) =>
          client.hmget(outputs, ...some.map((piece) => `${ref}:${piece}`)),
        );
        for (const [index, json] of pieces.entries()) {
          const piece = parseStored(pieceSchema, json ?? "", what);
          const at = ((some[0] as number) + index) * pieceLength;
          text += piece.slice(Math.max(0, start - at), Math.max(0, end - at));
        }
      }
      return text;
    },

    async dropOutputs(runId, beginning, except) {
      const { outputs } = keys.run(runId);
      const isMeant = (field: string): boolean => field.startsWith(beginning) && field.split(":")[0] !== except;
      const fields = (await connection.use((client) => client.hkeys(outputs))).filter(isMeant);
      // Lengths first: a text is not there any more before a piece of it goes.
      fields.sort((a, b) => Number(a.includes(":")) - Number(b.includes(":")));
      for (const some of inBatches(0, fields.length)) {
        const names = some.map((index) => fields[index] as string);
        await connection.use((client) => client.hdel(outputs, ...names));
      }
    },
  };
}

function pieceOf(text: string, piece: number): string {
  return text.slice(piece * pieceLength, (piece + 1) * pieceLength);
}

/** The numbers of a half-open range, so many at a time as are written or read at once. */
function inBatches(from: number, to: number): number[][] {
  const batches: number[][] = [];
  for (let first = from; first < to; first += piecesAtOnce) {
    batches.push(Array.from({ length: Math.min(piecesAtOnce, to - first) }, (_, index) => first + index));
  }
  return batches;
}
