// Secrets that are none, put together when tests run, so that no scanner of repositories takes them for real ones.

const mixed = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9nP2rS4tU6vX8yA1cD3eF5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9";
const hex = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
const put = (...parts: string[]): string => parts.join("");

const pemBody = Array.from({ length: 6 }, (_, line) => put(mixed.slice(line, line + 60), "+/ab")).join("\n");

/** Name, the secret, and a text that holds it. Nothing of the secret may be left of the text. */
export const secretTexts: readonly (readonly [kind: string, secret: string, text: string])[] = [
  ...(
    [
      ["drover", put("dr", "v_ci-1_", mixed.slice(0, 43))],
      ["openai", put("sk", "-proj-", mixed.slice(0, 60))],
      ["openai, old", put("sk", "-", mixed.slice(0, 48))],
      ["anthropic", put("sk", "-ant-api03-", mixed.slice(0, 93), "AA")],
      ["aws key id", put("AK", "IA", "IOSFODNN7EXAMPLE")],
      ["google", put("AI", "za", mixed.slice(0, 35))],
      ["google oauth", put("ya", "29.", mixed.slice(0, 40))],
      ["github", put("gh", "p_", mixed.slice(0, 36))],
      ["github, fine", put("github", "_pat_", mixed.slice(0, 82))],
      ["gitlab", put("gl", "pat-", mixed.slice(0, 20))],
      ["slack", put("xo", "xb-1234567890-1234567890-", mixed.slice(0, 24))],
      ["stripe", put("sk", "_live_", mixed.slice(0, 24))],
      ["npm", put("np", "m_", mixed.slice(0, 36))],
      ["pypi", put("py", "pi-AgEIcHlwaS5vcmc", mixed.slice(0, 60))],
      ["hugging face", put("h", "f_", mixed.replaceAll(/[0-9]/g, "x").slice(0, 34))],
      ["twilio", put("S", "K", hex.slice(0, 32))],
      ["sendgrid", put("S", "G.", mixed.slice(0, 22), ".", mixed.slice(0, 43))],
      ["jwt", put("ey", "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.", mixed.slice(0, 43))],
      ["long jwt", put("ey", "JhbGciOiJIUzI1NiJ9.", mixed.repeat(20), ".", mixed)],
    ] as const
  ).flatMap(([kind, secret]) => [
    [kind, secret, `it is ${secret}, so there`] as const,
    [`${kind} in JSON`, secret, JSON.stringify({ said: `first\n${secret}\nlast` })] as const,
    [`${kind} in a URL`, secret, `https://host/x?a=1&k=${secret}&b=2`] as const,
  ]),
  ["telegram", mixed.slice(0, 33), `bot 12345678:AA${mixed.slice(0, 33)} sends`],
  [
    "azure account",
    put(mixed.slice(0, 86), "=="),
    `AccountName=a;AccountKey=${put(mixed.slice(0, 86), "==")};Suffix=b`,
  ],
  ["azure client", mixed.slice(5, 36), `abc8Q~${mixed.slice(5, 39)}`],
  ["azure signature", mixed.slice(0, 40), `https://a.blob/x?sv=1&sig=${mixed.slice(0, 40)}%3D&se=2`],
  ["aws secret", mixed.slice(0, 40), `aws_secret_access_key = ${mixed.slice(0, 40)}`],
  ["bearer", mixed.slice(0, 30), `curl -H 'Authorization: Bearer ${mixed.slice(0, 30)}' https://x`],
  ["bearer alone", "abc123.def", "sent Bearer abc123.def to it"],
  ["basic", "dXNlcjpwYXNzd29yZA", "Authorization: Basic dXNlcjpwYXNzd29yZA=="],
  ["basic alone", "dXNlcjpwYXNzd29yZA", "with Basic dXNlcjpwYXNzd29yZA== it went"],
  ["redis", "hunter2", "connected to redis://app:hunter2@host:6379/0"],
  ["redis without user", "hunter2", "rediss://:hunter2@host"],
  ["postgres", "p@ss:w0rd", "postgres://me:p@ss:w0rd@db.example/x?sslmode=on"],
  ["token as a user", mixed.slice(0, 30), `git clone https://${mixed.slice(0, 30)}@github.com/a/b`],
  ["assignment", "hunter2", "password=hunter2"],
  ["assignment in prose", "hunter2", "password: hunter2, and go on"],
  ["environment", "hunter2!", "export DB_PASSWORD=hunter2!\nnext"],
  ["JSON", 'hun"ter2', JSON.stringify({ password: 'hun"ter2 and more', n: 1 }).replace("hun\\", "hun\\")],
  ["JSON in JSON", "hunter2", JSON.stringify(JSON.stringify({ apiKey: "hunter2", n: 1 }))],
  ["JSON in JSON in JSON", "hunter2", JSON.stringify(JSON.stringify(JSON.stringify({ client_secret: "hunter2" })))],
  ["a number in JSON", "73519", '{"password": 73519}'],
  ["option", "hunter2", "mysql --password hunter2 --host x"],
  ["said", "hunter2", "The password is hunter2."],
  ["code", "hunter2", `config["api_key"] = 'hunter2';`],
  ["cookie", "abcdef", "Cookie: sid=abcdef; theme=dark\nHost: x"],
  ["set-cookie", "abcdef", "set-cookie: sid=abcdef; Path=/"],
  ["token", "abc123def", "refresh_token=abc123def"],
  [
    "pem",
    pemBody.slice(0, 40),
    `a\n-----BEGIN RSA ${put("PRI", "VATE")} KEY-----\n${pemBody}\n-----END RSA ${put("PRI", "VATE")} KEY-----\nb`,
  ],
  [
    "pem in JSON",
    pemBody.slice(0, 40),
    JSON.stringify({
      k: `-----BEGIN ${put("PRI", "VATE")} KEY-----\n${pemBody}\n-----END ${put("PRI", "VATE")} KEY-----\n`,
    }),
  ],
  ["pem cut off", pemBody.slice(-30), `-----BEGIN ${put("PRI", "VATE")} KEY-----\n${pemBody}`],
];

/** What looks a little like a secret and is none. */
export const plainTexts: readonly string[] = [
  '{"inputTokens":120,"max_tokens":4096,"usage":{"prompt_tokens":5},"token":7}',
  "trace 4bf92f3577b34da6a3ce929d0e0e4736, span 00f067aa0ba902b7",
  "550e8400-e29b-41d4-a716-446655440000",
  `sha256:${hex} and git ${hex.slice(0, 40)}`,
  '{"type":"object","properties":{"password":{"type":"string"},"token":{"type":"string"}},"required":["password"]}',
  `data:image/png;base64,${"iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4".repeat(20)}`,
  "The password must have 8 characters. Password: required",
  "type Login = { password: string; secret?: string };",
  "next_page_token=abc123def456 and eos_token: 50256x",
  "http://localhost:3000/@vite/client and ssh://git@github.com/a/b.git and redis://host:6379",
  "PWD=/home/user",
  "Basic JavaScript for the bearer of news; Bearer token authentication; token: authentication failed",
  "apiKey: process.env.OPENAI_API_KEY, const token = getToken()",
  '"tough-cookie": "^4.1.3", credentials: "include"',
  put("password: $", "{PASSWORD} or password=<password>"),
  "run order-42, call-3-1, 01JABCDEFGHJKMNPQRSTVWXYZ0, sk-SK",
  "secretary: Bob; secrets: many; tokenizer: bpe; 密码 is Chinese",
];

/** What a careless tool, user or model says in the end-to-end tests: whole texts, and the secrets in them. */
export const apiKey: string = put("key-of-the-test-", hex.slice(0, 20));
const bare = [
  put("sk", "-proj-", mixed.slice(0, 60)),
  put("gh", "p_", mixed.slice(0, 36)),
  put("AK", "IA", "IOSFODNN7EXAMPLE"),
  put("ey", "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.", mixed.slice(0, 43)),
  "CUST-4711-0815",
  apiKey,
];
export const spilled: readonly string[] = [
  ...bare,
  "postgres://me:hunter2x@db.example/x",
  "password=correct-horse-7",
  'see {"client_secret": "staple battery 9"}',
];
export const spilledSecrets: readonly string[] = [...bare, "hunter2x", "correct-horse-7", "staple battery 9"];
