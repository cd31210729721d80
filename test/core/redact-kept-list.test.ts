// The kept list of secretlint: whatever one of its rules finds in a text, Drover redacts too. A rule that is added there
// makes this red until there is a sample for it here.
import { rules } from "@secretlint/secretlint-rule-preset-recommend";
import { expect, test } from "vitest";
import { createRedactor } from "../../src/core/redact.ts";

const letters = "aBcDeFgHiJkLmNoPqRsTuVwXyZabCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh";
const mixed = `a1B2c3D4e5F6g7H8i9J0${letters}`.repeat(4);
const hex = "0f1e2d3c4b5a6978".repeat(4);
const join = (...parts: string[]): string => parts.join("");

// Written so long that its last byte stands alone in base64, as the real ones are.
const onePassword = [22, 23, 24]
  .map((length) =>
    JSON.stringify({
      email: "someone@1passwordserviceaccounts.lcl",
      muk: {
        alg: "A256GCM",
        ext: true,
        k: letters.slice(0, 43),
        key_ops: ["encrypt", "decrypt"],
        kty: "oct",
        kid: "mp",
      },
      secretKey: "A3-C4ZJMN-PQTZTL-HGL84-G64M7-KVZRN-4ZVP6",
      srpX: hex,
      signInAddress: "example.b5local.com:4000",
      userAuth: { method: "SRPg-4096", alg: "PBES2g-HS256", iterations: 100_000, salt: letters.slice(0, length) },
    }),
  )
  .find((json) => json.length % 3 === 1) as string;

const samples: Record<string, string> = {
  aws: `AWS_SECRET_ACCESS_KEY="${mixed.slice(0, 40)}"`,
  npm: join("npm", "_", mixed.slice(0, 36)),
  slack: join("xo", "xb-1234567890-", mixed.slice(0, 24)),
  basicauth: "https://someone:secretword@example.com/x",
  openai: join("sk-", mixed.slice(0, 20), "T3Blbk", "FJ", mixed.slice(0, 20)),
  anthropic: join("sk-ant", "-api03-", mixed.slice(0, 93), "AA"),
  groq: join("gs", "k_", mixed.slice(0, 52)),
  huggingface: join("h", "f_", letters.slice(0, 34)),
  linear: join("lin", "_api_", mixed.slice(0, 40)),
  notion: join("nt", "n_12345678901", mixed.slice(0, 35)),
  privatekey: `-----BEGIN ${join("PRI", "VATE")} KEY-----\nMI${mixed.slice(0, 62)}\n${mixed.slice(0, 64)}\n-----END ${join("PRI", "VATE")} KEY-----`,
  sendgrid: join("S", "G.", mixed.slice(0, 22), ".", mixed.slice(0, 43)),
  shopify: join("shp", "at_", hex.slice(0, 32)),
  stripe: join("sk", "_live_", mixed.slice(0, 24)),
  github: join("gh", "p_", mixed.slice(0, 36)),
  gitlab: join("gl", "pat-", mixed.slice(0, 20)),
  grafana: join("gl", "sa_", mixed.slice(0, 32), "_", hex.slice(0, 8)),
  "1password": join("op", "s_", btoa(onePassword)),
  "database-connection-string": "postgresql://someone:s3cretw0rd@db.example.com:5432/x",
  "hashicorp-vault": join("hv", "s.", mixed.slice(0, 95)),
  vercel: join("vc", "p_", mixed.slice(0, 24)),
  databricks: join("da", "pi", hex.slice(0, 32)),
  docker: join("dckr", "_pat_", mixed.slice(0, 27)),
  figma: join("fi", "gd_", mixed.slice(0, 40)),
  cloudflare: join("cf", "ut_", mixed.slice(0, 40), hex.slice(0, 8)),
  tailscale: join("ts", "key-auth-", mixed.slice(0, 12), "-", mixed.slice(0, 32)),
};

// These look at files, or at comments that switch rules off.
const others = ["gcp", "filter-comments"];

type Rule = (typeof rules)[number];
const nameOf = (rule: Rule): string => rule.meta.id.replace("@secretlint/secretlint-rule-", "");

/** Parts of a text that a rule reports. */
function reported(rule: Rule, content: string): string[] {
  const ranges: (readonly number[])[] = [];
  const context = {
    createTranslator: () => () => ({ message: "", messageId: "" }),
    report: ({ range }: { range: readonly number[] }) => ranges.push(range),
    ignore: () => {},
  };
  const source = { content, filePath: "a.txt", ext: ".txt", contentType: "text", getLocFromRange: () => ({}) };
  const handler = rule.create(context as never, {} as never) as { file(source: unknown): void };
  handler.file(source);
  return ranges.map(([from, to]) => content.slice(from, to));
}

test.each(rules.filter((rule) => !others.includes(nameOf(rule))).map((rule) => [nameOf(rule), rule] as const))(
  "%s",
  (name, rule) => {
    const sample = samples[name];
    if (sample === undefined) throw new Error(`there is no sample of ${name}`);
    const content = `before ${sample} after`;
    expect(reported(rule, content)).not.toEqual([]);
    const redacted = createRedactor().text(content);
    expect(reported(rule, redacted)).toEqual([]);
    expect(redacted).toMatch(/^before .*\[redacted: [a-z0-9 ]+\].* after$/s);
  },
);
