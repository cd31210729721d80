import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

export type Certificates = Record<"ca" | "cert" | "key" | "clientCert" | "clientKey" | "otherCa", string>;

/** Makes an authority, a certificate for 127.0.0.1 and one of a client, as files in PEM, by openssl. */
export function makeCertificates(dir: string): Certificates {
  const at = (name: string): string => join(dir, name);
  const openssl = (...args: string[]): void =>
    void execFileSync("openssl", args, { cwd: dir, stdio: ["ignore", "ignore", "pipe"] });
  const makeCa = (name: string): void =>
    openssl(
      ..."req -x509 -newkey rsa:2048 -nodes -days 2".split(" "),
      "-subj",
      `/CN=${name}`,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.pem`,
    );
  const sign = (name: string, extension: string): void => {
    writeFileSync(at(`${name}.ext`), extension);
    openssl(
      ..."req -newkey rsa:2048 -nodes".split(" "),
      "-subj",
      `/CN=${name}`,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.csr`,
    );
    openssl(
      ..."x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -days 2".split(" "),
      ...["-in", `${name}.csr`, "-out", `${name}.pem`, "-extfile", `${name}.ext`],
    );
  };
  makeCa("ca");
  makeCa("other");
  sign("server", "subjectAltName=IP:127.0.0.1,DNS:redis.test");
  sign("client", "extendedKeyUsage=clientAuth");
  return {
    ca: at("ca.pem"),
    otherCa: at("other.pem"),
    cert: at("server.pem"),
    key: at("server.key"),
    clientCert: at("client.pem"),
    clientKey: at("client.key"),
  };
}
