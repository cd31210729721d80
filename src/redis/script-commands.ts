import { createHash } from "node:crypto";
import { Command } from "ioredis";
import { isUnknownScript, tooLarge } from "./redis-error.ts";
import { type RedisClient, streamOf } from "./redis-target.ts";

/**
 * Lets a client send its scripts at a fraction of what they cost in the library, which is the greatest single part of a
 * busy worker's time: the library puts a command that holds bytes, as all of BullMQ's do, together from three pieces per
 * argument. What they do stays the same: by their hash, and with their text where the server does not know it (first use of a
 * connection, SCRIPT FLUSH). Scripts in a pipeline or a transaction go the library's way.
 */
export function sendScriptsLean(client: RedisClient): void {
  refuseOversize(client);
  const define = client.defineCommand.bind(client);
  client.defineCommand = (name, definition) => {
    define(name, definition);
    const inLibrary = (client as unknown as Record<string, Run>)[name] as Run;
    const send = toSender(client, definition.lua);
    const { numberOfKeys } = definition;
    // A pipeline takes over the functions of its client, and calls them as its own.
    Object.assign(client, {
      [name](this: unknown, ...args: Argument[]) {
        if (this !== client) return inLibrary.apply(this, args);
        return send(numberOfKeys === undefined ? args : [numberOfKeys, ...args]);
      },
    });
  };
}

/** A server may cut the connection of whoever sends it more than it takes, and say nothing. */
const mostSends = 8;
const suspectBytes = 524_288;
const longestHoldMs = 500;

/**
 * Gives up a large command whose connection was cut each time. The library would send it for ever, and all that came after it
 * on that connection would wait: one answer of a model could stop a whole worker. It is held back before it is sent again, so
 * that others are done; a connection that breaks meanwhile and has carried nothing large was not cut because of it.
 */
export function refuseOversize(client: RedisClient): void {
  const send = client.sendCommand.bind(client) as (...args: unknown[]) => Promise<unknown>;
  client.sendCommand = ((command: unknown, stream: unknown, node: unknown) => {
    if (!(command instanceof ScriptCommand && command.isSuspect())) return send(command, stream, node);
    const socket = streamOf(client);
    const sendAgain = (): void => {
      if (streamOf(client) !== socket && !isCarrier(socket)) command.noteInnocence();
      if (command.isGivenUp()) {
        command.reject(Object.assign(new Error("the connection was cut whenever this was sent"), { code: tooLarge }));
      } else void send(command, stream, node);
    };
    setTimeout(sendAgain, command.holdMs()).unref();
    return command.promise;
  }) as typeof client.sendCommand;
  // A refusal is an answer: a primary that is none any more, a cluster that is down. It may be sent for as long as that takes.
  const { handleReconnection: handle } = client as unknown as Partial<Handling>;
  if (handle) {
    Object.assign(client, {
      handleReconnection(this: unknown, error: Error, item: Item) {
        if (item.command instanceof ScriptCommand) item.command.noteInnocence();
        return handle.call(client, error, item);
      },
    });
  }
}

/** Connections over which something large was sent. */
const carriers = new WeakSet<object>();

function isCarrier(socket: unknown): boolean {
  return typeof socket === "object" && socket !== null && carriers.has(socket);
}

type Item = { command: Command };
/** The library's, for each answer that is an error. A cluster's client has none: its nodes do. */
type Handling = { handleReconnection(error: Error, item: Item): void };

type Argument = string | number | Buffer | Argument[];
type Run = (this: unknown, ...args: Argument[]) => unknown;

/** `knownOn`: the connections over which a server was given the text. */
type Script = { lua: string; sha: string; knownOn: WeakSet<object> };

function toSender(client: RedisClient, lua: string): (args: Argument[]) => Promise<unknown> {
  const script: Script = { lua, sha: createHash("sha1").update(lua).digest("hex"), knownOn: new WeakSet() };
  return (args) => {
    const command = new ScriptCommand(script, args, false);
    client.sendCommand(command);
    return command.promise.catch((error: unknown) => {
      if (!isUnknownScript(error)) throw error;
      return client.sendCommand(new ScriptCommand(script, args, true));
    });
  };
}

class ScriptCommand extends Command {
  readonly #script: Script;
  readonly #withText: boolean;
  #sends = 0;
  #isLarge = false;

  constructor(script: Script, args: Argument[], withText: boolean) {
    super("evalsha", [script.sha, ...(args as string[])], { replyEncoding: "utf8" });
    this.#script = script;
    this.#withText = withText;
  }

  /** The library asks anew for each connection that it sends the command over. */
  override toWritable(socket: object): string | Buffer {
    const script = this.#script;
    const isKnown = !this.#withText && script.knownOn.has(socket);
    if (!isKnown) script.knownOn.add(socket);
    this.name = isKnown ? "evalsha" : "eval";
    this.args[0] = isKnown ? script.sha : script.lua;
    this.#sends += 1;
    const written = encodeCommand(this.name, this.args as (string | Buffer)[]);
    if (written.length >= suspectBytes) {
      this.#isLarge = true;
      carriers.add(socket);
    }
    return written;
  }

  /** It was answered, or cut for another reason. */
  noteInnocence(): void {
    this.#sends = 0;
  }

  holdMs(): number {
    return Math.min(100 * this.#sends, longestHoldMs);
  }

  isGivenUp(): boolean {
    return this.#sends >= mostSends;
  }

  /** Whether it was sent before, and is large. */
  isSuspect(): boolean {
    return this.#isLarge && this.#sends > 0;
  }
}

/** A command as RESP has it on the wire (redis.io, "Redis serialization protocol specification"): a text if it holds no bytes. */
export function encodeCommand(name: string, args: readonly (string | Buffer)[]): string | Buffer {
  let text = `*${args.length + 1}\r\n${lengthLine(name.length)}${name}\r\n`;
  const parts: (string | Buffer)[] = [];
  for (const arg of args) {
    if (typeof arg === "string") {
      text += `${lengthLine(Buffer.byteLength(arg))}${arg}\r\n`;
    } else {
      parts.push(text + lengthLine(arg.length), arg);
      text = "\r\n";
    }
  }
  if (parts.length === 0) return text;
  parts.push(text);
  return joined(parts);
}

const shortLines = Array.from({ length: 256 }, (_, bytes) => `$${bytes}\r\n`);

function lengthLine(bytes: number): string {
  return shortLines[bytes] ?? `$${bytes}\r\n`;
}

/** Of its exact size: what is small enough comes from the process's pool, which costs much less than memory of its own. */
function joined(parts: readonly (string | Buffer)[]): Buffer {
  let size = 0;
  for (const part of parts) size += typeof part === "string" ? Buffer.byteLength(part) : part.length;
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const part of parts) at += typeof part === "string" ? bytes.write(part, at) : part.copy(bytes, at);
  return bytes;
}
