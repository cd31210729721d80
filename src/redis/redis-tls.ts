import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { DroverError, toError } from "../core/errors.ts";

/** The parameters of a `rediss://` URL that name files in PEM. */
const fileParameters = ["ca", "cert", "key"] as const;

/**
 * What a URL says about TLS: `rediss://host?ca=/path/ca.pem&cert=/path/client.pem&key=/path/client.key`. The files are
 * read for each connection, so that a certificate that was renewed is taken at the next one. `servername`: what the
 * server's certificate is for, where that is not the host in the URL.
 *
 * @returns the URL without those parameters, and options for TLS if there are any.
 * @throws DroverError "invalid" for a file that cannot be read, and for such a parameter without `rediss://`.
 */
export function splitTls(given: URL): { url: string; tls?: ConnectionOptions } {
  const url = new URL(given);
  const { searchParams } = url;
  const names = [...fileParameters, "servername"].filter((name) => searchParams.has(name));
  if (names.length === 0) return { url: url.href };
  if (url.protocol !== "rediss:") {
    const what = names.join(", ");
    throw new DroverError(
      "invalid",
      `The Redis URL has ${what}, which only TLS uses. Write it as rediss://, or remove ${what}.`,
    );
  }
  const tls: ConnectionOptions = {};
  for (const name of names) {
    const value = searchParams.get(name) ?? "";
    if (name === "servername") tls.servername = value;
    else Object.assign(tls, { [name]: readPem(name, value) });
    searchParams.delete(name);
  }
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new DroverError("invalid", "The Redis URL has one of cert and key. A client's certificate needs both.");
  }
  return { url: url.href, tls };
}

function readPem(name: string, path: string): string {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const { code } = toError(error) as NodeJS.ErrnoException;
    throw new DroverError("invalid", `The Redis URL names ${path} as ${name}, which cannot be read (${code}).`);
  }
  if (text.includes("-----BEGIN ")) return text;
  throw new DroverError("invalid", `The Redis URL names ${path} as ${name}, which is no file in PEM.`);
}
