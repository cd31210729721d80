import { type Command, InvalidArgumentError } from "commander";
import {
  scopes as allScopes,
  hasExpired,
  hashSecret,
  keyNamePattern,
  makeKeyId,
  makeSecret,
  toApiKey,
} from "../../api-keys.ts";
import { DroverError } from "../../core/errors.ts";
import { runIdSchema } from "../../core/new-run.ts";
import type { KeyStore, Scope, StoredKey } from "../../ports.ts";
import { act, type Exit } from "../command.ts";
import { type Context, findRedisUrl } from "../context.ts";
import { toDuration, toOneLine } from "../format/text.ts";
import { withKeys } from "../key-store.ts";

type CreateOptions = { scope: Scope[]; tenant?: string; expires?: number; static?: boolean; json?: boolean };
type RotateOptions = { grace: number; json?: boolean };
type JsonOption = { json?: boolean };

/** `drover keys create | list | rotate | remove`. */
export function registerKeys(program: Command, context: Context, exit: Exit): void {
  const keys = program.command("keys").description("make, list, rotate and remove the keys that HTTP is asked with");
  const run = (options: JsonOption, action: () => Promise<number>): Promise<void> =>
    act(context, exit, options, action);
  keys
    .command("create")
    .description("make a key and print it; it is shown this once")
    .argument("<name>", "whose it is; runs that it starts or decides bear this name", toName)
    .requiredOption("--scope <scope>", `what it allows: ${allScopes.join(", ")}; several divided by commas`, toScopes)
    .option("--tenant <tenant>", "it sees and starts this tenant's runs only", toTenant)
    .option("--expires <time>", "until when it is good, as 12h or 30d (default: without end)", toMs(1))
    .option("--static", "keep it nowhere: print an entry for DROVER_API_KEYS too")
    .option("--json", "print JSON")
    .action((name: string, options: CreateOptions) => run(options, () => create(context, name, options)));
  keys
    .command("list")
    .description("list the keys there are, without their secrets")
    .option("--json", "print JSON")
    .action((options: JsonOption) => run(options, () => list(context, options)));
  keys
    .command("rotate")
    .description("give a key a new secret and print it")
    .argument("<id>", "as drover keys list shows it")
    .option("--grace <time>", "how long the old secret stays good, as 0, 10m or 24h", toMs(0), 3_600_000)
    .option("--json", "print JSON")
    .action((id: string, options: RotateOptions) => run(options, () => rotate(context, id, options)));
  keys
    .command("remove")
    .description("remove a key; within a second it is good for nothing, and who signed in with it is out")
    .argument("<id>", "as drover keys list shows it")
    .option("--json", "print JSON")
    .action((id: string, options: JsonOption) => run(options, () => remove(context, id, options)));
}

async function create(context: Context, name: string, options: CreateOptions): Promise<number> {
  const id = makeKeyId();
  const secret = makeSecret();
  const { tenant, expires, scope } = options;
  const make = (now: number): StoredKey => ({
    ...{ id, name, scopes: scope, tenant, secretHash: hashSecret(secret), createdAt: now },
    expiresAt: expires === undefined ? undefined : now + expires,
  });
  if (options.static) {
    const key = make(Date.now());
    tell(context, key, secret, { json: options.json, entry: toEntry(key) });
    return 0;
  }
  const key = await withKeys(context, await findRedisUrl(context), async (store, now) => {
    const made = make(now);
    await store.put(made);
    return made;
  });
  tell(context, key, secret, options);
  return 0;
}

async function rotate(context: Context, id: string, options: RotateOptions): Promise<number> {
  const secret = makeSecret();
  const key = await withKeys(context, await findRedisUrl(context), async (store, now) => {
    const found = await findKey(context, store, id);
    if (hasExpired(found, now)) {
      throw new DroverError("not_allowed", `The key ${id} has expired. Make another one: drover keys create.`);
    }
    const previous = { secretHash: found.secretHash, validUntil: now + options.grace };
    const rotated = { ...found, secretHash: hashSecret(secret), previous: options.grace > 0 ? previous : undefined };
    if (!(await store.replace(rotated, found.secretHash))) {
      throw new DroverError("conflict", `The key ${id} was removed or rotated just now. Look again: drover keys list.`);
    }
    return rotated;
  });
  if (!options.json) {
    const grace = options.grace > 0 ? `stays good for ${toDuration(options.grace)}` : "is good for nothing now";
    context.output.note(`the old secret ${grace}`);
  }
  tell(context, key, secret, options);
  return 0;
}

async function remove(context: Context, id: string, { json }: JsonOption): Promise<number> {
  await withKeys(context, await findRedisUrl(context), async (store) => {
    await findKey(context, store, id);
    await store.remove(id);
  });
  if (json) context.output.json({ removed: id });
  else context.output.line(`removed ${id}`);
  return 0;
}

async function list(context: Context, { json }: JsonOption): Promise<number> {
  const { output } = context;
  const { kept, now } = await withKeys(context, await findRedisUrl(context), async (store, at) => ({
    kept: await store.list(),
    now: at,
  }));
  const rows = [
    ...(context.config().apiKeys ?? []).map((key) => ({ ...toShown(key, now), from: "DROVER_API_KEYS" })),
    ...kept.map((key) => ({ ...toShown(key, now), from: "redis" })),
  ];
  if (json) output.json({ keys: rows });
  else if (rows.length === 0) output.note("no keys: drover keys create NAME --scope admin makes one");
  else {
    const table = rows.map((key) => [
      ...[key.id, toOneLine(key.name, 40), key.scopes.join(","), key.tenant ?? "(all)"],
      ...[
        key.createdAt?.slice(0, 16) ?? "",
        key.expired ? "expired" : (key.expiresAt?.slice(0, 16) ?? "never"),
        key.from,
      ],
    ]);
    output.table(["id", "name", "scopes", "tenant", "created", "expires", "kept in"], table);
  }
  return 0;
}

type Shown = Pick<StoredKey, "id" | "name" | "scopes" | "tenant"> & {
  createdAt?: string | undefined;
  expiresAt?: string | undefined;
  expired: boolean;
};

/** A key as it may be shown: not even the hash. */
function toShown(key: StoredKey, now: number): Shown {
  const { id, name, scopes, tenant, createdAt, expiresAt } = key;
  const toTime = (at: number | undefined): string | undefined => (at ? new Date(at).toISOString() : undefined);
  return {
    ...{ id, name, scopes, tenant, createdAt: toTime(createdAt), expiresAt: toTime(expiresAt) },
    expired: hasExpired(key, now),
  };
}

type Telling = { json?: boolean | undefined; entry?: object };

/** Prints the key itself to standard output, alone, so that a program can take it; words go to standard error. */
function tell(context: Context, key: StoredKey, secret: string, { json, entry }: Telling): void {
  const { output } = context;
  const shown = toShown(key, key.createdAt);
  const text = toApiKey(key.id, secret);
  if (json) {
    output.secret(JSON.stringify({ key: text, ...shown, ...(entry ? { entry } : {}) }));
    return;
  }
  const until = shown.expiresAt === undefined ? "does not expire" : `good until ${shown.expiresAt}`;
  output.note(`key ${key.id} of ${key.name} | ${key.scopes.join(", ")} | tenant ${key.tenant ?? "(all)"} | ${until}`);
  if (entry) output.note(`for the list of DROVER_API_KEYS: ${JSON.stringify(entry)}`);
  output.note("this is shown once; only a hash of it is kept:");
  output.secret(text);
}

function toEntry({ id, name, scopes, tenant, secretHash, expiresAt }: StoredKey): object {
  const until = expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() };
  return { id, name, scopes, ...(tenant === undefined ? {} : { tenant }), ...until, hash: secretHash };
}

async function findKey(context: Context, store: KeyStore, id: string): Promise<StoredKey> {
  const key = await store.get(id);
  if (key) return key;
  if (context.config().apiKeys?.some((one) => one.id === id)) {
    throw new DroverError(
      "not_allowed",
      `The key ${id} stands in DROVER_API_KEYS. Change it there and start the server again.`,
    );
  }
  throw new DroverError("not_found", `No key has the id "${id}". "drover keys list" shows the ones there are.`);
}

function toScopes(text: string, earlier: Scope[] = []): Scope[] {
  const found = text.split(",").map((part) => {
    const scope = allScopes.find((one) => one === part.trim());
    if (scope === undefined) throw new InvalidArgumentError(`Expected some of ${allScopes.join(", ")}.`);
    return scope;
  });
  return [...new Set([...earlier, ...found])];
}

function toName(text: string): string {
  if (keyNamePattern.test(text)) return text;
  throw new InvalidArgumentError("Expected 1 to 100 characters, none of them a control character.");
}

function toTenant(text: string): string {
  const { success, data, error } = runIdSchema.safeParse(text);
  if (success) return data;
  throw new InvalidArgumentError(`It ${error.issues[0]?.message}.`);
}

const units: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A duration like `90s`, `10m`, `12h`, `30d` or `0` in ms, of at least `min`. */
function toMs(min: number): (text: string) => number {
  return (text) => {
    const { number, unit = "s" } = /^(?<number>\d{1,5})(?<unit>[smhd])$|^(?<number>0)$/.exec(text)?.groups ?? {};
    const ms = Number(number) * (units[unit] ?? 0);
    if (ms >= min) return ms;
    throw new InvalidArgumentError("Expected a time like 90s, 10m, 12h or 30d.");
  };
}
