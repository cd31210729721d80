/** A Redis URL that names several hosts. */
export type ManyHosts = {
  kind: "sentinel" | "cluster";
  /** The same with its first host alone and the scheme `redis:` or `rediss:`: user, password, path and parameters. */
  url: URL;
  hosts: { host: string; port: number }[];
};

const manyHosts = /^(rediss?)\+(sentinel|cluster):\/\/([^/?#]*@)?([^/?#@]+)(.*)$/;
const defaultPorts = { sentinel: 26_379, cluster: 6_379 };

/**
 * Reads `redis+sentinel://[user:password@]h1:26379,h2:26379/<group>[/<database>]` and
 * `redis+cluster://[user:password@]h1:7000,h2:7001`, each with `rediss` for TLS too.
 *
 * @returns undefined for any other text.
 */
export function splitHosts(text: string): ManyHosts | undefined {
  const [, scheme, kind, auth = "", list = "", rest = ""] = manyHosts.exec(text) ?? [];
  if (kind !== "sentinel" && kind !== "cluster") return undefined;
  const addresses = list.split(",").map((host) => URL.parse(`redis://${host}`));
  const hosts = addresses.flatMap((address) =>
    address?.hostname
      ? // An IPv6 address stands in brackets only inside a URL.
        [{ host: address.hostname.replace(/^\[|\]$/g, ""), port: Number(address.port || defaultPorts[kind]) }]
      : [],
  );
  const url = URL.parse(`${scheme}://${auth}${list.split(",")[0]}${rest}`);
  if (!url || hosts.length !== addresses.length) return undefined;
  return { kind, url, hosts };
}
