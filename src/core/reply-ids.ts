const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const idLength = 9;

/**
 * An id for a call that came without a usable one: nine letters and digits, the form that every known server accepts.
 * The same seed gives the same id, so that a redelivered step names its calls alike.
 *
 * @param isUsed whether an id must not be given again.
 */
export function makeToolCallId(seed: string, isUsed: (id: string) => boolean): string {
  for (let salt = 0; ; salt += 1) {
    const id = encode(hash(salt === 0 ? seed : `${seed}#${salt}`));
    if (!isUsed(id)) return id;
  }
}

/** FNV-1a over UTF-16 units, 64 bits, with a last mix so that near seeds end far apart. */
function hash(text: string): bigint {
  let value = 0xcbf29ce484222325n;
  for (let index = 0; index < text.length; index += 1) {
    value = BigInt.asUintN(64, (value ^ BigInt(text.charCodeAt(index))) * 0x100000001b3n);
  }
  value = BigInt.asUintN(64, (value ^ (value >> 33n)) * 0xff51afd7ed558ccdn);
  return value ^ (value >> 33n);
}

function encode(value: bigint): string {
  let rest = value;
  let id = "";
  while (id.length < idLength) {
    id += digits[Number(rest % 62n)];
    rest /= 62n;
  }
  return id;
}
