// What secrets look like, as data. `redact-scan.ts` reads text with it, once and from left to right.
//
// Why a table of our own: the kept list that fits best (secretlint's preset) knows neither JWTs nor bearer tokens,
// Google keys, AWS key ids or `password=`, obeys `secretlint-disable` comments in the very text that is to be
// cleaned, and cannot work on text that is still arriving. A test holds this table against that list instead: whatever
// one of its rules finds, this one finds too.
//
// Each kind has a head, which decides and is bounded in length, and a tail, which is swallowed one unit at a time: so
// reading is linear, and text that arrives in pieces needs to be held back no longer than a head can be.

/** The longest head, what lookbehinds see of the text before it, and the most runs of white space in a head. */
export const headMax = 700;
export const contextMax = 64;
export const headGaps = 4;

/**
 * What belongs to a secret after its head: `unit` as often as it comes, then `last`, if it comes. `ahead`: how much of
 * the text these need to see to be sure. All expressions are sticky.
 */
export type Tail = { unit: RegExp; last?: RegExp; ahead: number };

/**
 * What was found at a place: `keep` stays as it is, what follows up to the end of the tail is replaced. `quote`: what
 * goes around the replacement, so that JSON stays JSON.
 */
export type Found = { kind: string; keep: string; end: number; tail: Tail; quote?: string | undefined };

/** Looks at one place of a text. */
export type Detector = (text: string, at: number) => Found | undefined;

// Letters and digits before it would make it a part of something else; `\n` or `%20` written out do not.
const fresh = String.raw`(?<=^|[^A-Za-z0-9]|\\[nrtbf]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})`;
const word: Tail = { unit: /[A-Za-z0-9_-]+/y, ahead: 0 };
const dotted: Tail = { unit: /[A-Za-z0-9_-]+|\.(?=[A-Za-z0-9_-])/y, ahead: 2 };
const base64: Tail = { unit: /[A-Za-z0-9+/=_%-]+/y, ahead: 0 };
export const opaque: Tail = { unit: /[A-Za-z0-9+/=_~-]+|\.(?=[A-Za-z0-9+/=_~-])/y, ahead: 2 };

type Row = [kind: string, prefixes: string, body: string, tail?: Tail];

/** Prefixes are literal, divided by blanks; `body` is what must follow one of them. */
const rows: readonly Row[] = [
  ["private key", "AGE-SECRET-KEY-1", "[0-9A-Z]{20}"],
  ["jwt", "eyJ", String.raw`(?<![_-]eyJ)[A-Za-z0-9_-]{8,600}\.[A-Za-z0-9_-]{8}`, dotted],
  ["anthropic key", "sk-ant-", "[A-Za-z0-9_-]{16}"],
  ["drover key", "drv_", "[A-Za-z0-9-]{1,32}_[A-Za-z0-9_-]{40}"],
  ["openai key", "sk-proj- sk-svcacct- sk-admin- sk-None-", "[A-Za-z0-9_-]{16}"],
  ["api key", "sk-or-v1- sk-lf- pk-lf-", "[A-Za-z0-9-]{16}"],
  ["openai key", "sk-", "(?=[A-Za-z0-9_-]{0,60}[0-9])[A-Za-z0-9_-]{20}"],
  ["aws key id", "AKIA ASIA ABIA ACCA A3T", "[A-Z0-9]{13,17}(?![A-Za-z0-9])"],
  ["aws key", "ABSK", "[A-Za-z0-9+/]{60}", base64],
  ["google key", "AIza", "[A-Za-z0-9_-]{35}"],
  ["google key", "GOCSPX-", "[A-Za-z0-9_-]{20}"],
  ["google token", "ya29.", "[A-Za-z0-9_-]{16}", dotted],
  ["github token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9_]{20}", dotted],
  ["github token", "github_pat_", "[A-Za-z0-9_]{20}"],
  ["gitlab token", "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat-", "[A-Za-z0-9_-]{16}", dotted],
  ["slack token", "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxc- xoxd- xoxe- xoxe. xapp-", "[A-Za-z0-9%-]{8}", opaque],
  ["slack webhook", "hooks.slack.com/services/ hooks.slack.com/workflows/", "[A-Z0-9]{6}", base64],
  ["stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", "[A-Za-z0-9]{16}"],
  ["signing secret", "whsec_", "[A-Za-z0-9+/]{16}", base64],
  ["npm token", "npm_", "[A-Za-z0-9_]{30}"],
  ["pypi token", "pypi-", "[A-Za-z0-9_-]{32}"],
  ["hugging face token", "hf_", "[A-Za-z0-9]{30}"],
  ["hugging face token", "api_org_", "[A-Za-z0-9]{30}"],
  ["twilio key", "SK", "[0-9a-f]{32}(?![A-Za-z0-9])"],
  ["sendgrid key", "SG.", String.raw`[A-Za-z0-9_-]{1,128}\.[A-Za-z0-9_-]{3}`, dotted],
  ["mailgun key", "key-", "[0-9a-f]{32}(?![A-Za-z0-9])"],
  ["brevo key", "xkeysib-", "[0-9a-f]{32}"],
  ["groq key", "gsk_", "[A-Za-z0-9]{40}"],
  ["xai key", "xai-", "[A-Za-z0-9]{40}"],
  ["perplexity key", "pplx-", "[A-Za-z0-9]{32}"],
  ["replicate token", "r8_", "[A-Za-z0-9]{32}"],
  ["langsmith key", "lsv2_pt_ lsv2_sk_", "[0-9a-f]{24}"],
  ["linear key", "lin_api_ lin_oauth_", "[A-Za-z0-9_]{32}"],
  ["notion token", "ntn_ secret_", "[A-Za-z0-9]{40}"],
  ["shopify token", "shppa_ shpca_ shpat_ shpss_", "[A-Za-z0-9]{32}"],
  ["grafana token", "glc_", "[A-Za-z0-9+/]{32}", base64],
  ["grafana token", "glsa_", "[A-Za-z0-9]{32}"],
  ["1password token", "ops_ey", "[A-Za-z0-9+/]{80}", base64],
  ["vault token", "hvs. hvb. hvr.", "[A-Za-z0-9_-]{20}", dotted],
  ["vercel token", "vcp_ vci_ vca_ vcr_ vck_", "[A-Za-z0-9]{20}"],
  ["databricks token", "dapi", "[A-Fa-f0-9]{32}"],
  ["docker token", "dckr_pat_ dckr_oat_", "[A-Za-z0-9_-]{20}"],
  ["figma token", "figd_", "[A-Za-z0-9_-]{30}"],
  ["cloudflare token", "cfk_ cfut_ cfat_", "[A-Za-z0-9]{40}"],
  ["tailscale key", "tskey-", "[a-z]{2,20}-[0-9A-Za-z_]{8}"],
  ["digitalocean token", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{40}"],
  ["doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "[A-Za-z0-9_-]{2,40}[A-Za-z0-9._]{20}", dotted],
  ["pulumi token", "pul-", "[0-9a-f]{40}"],
  ["rubygems key", "rubygems_", "[0-9a-f]{40}"],
  ["sentry token", "sntrys_ sntryu_", "[A-Za-z0-9+/=_]{40}", base64],
  ["postman key", "PMAK-", "[0-9a-f]{20}"],
  ["planetscale secret", "pscale_tkn_ pscale_pw_ pscale_oauth_", "[A-Za-z0-9_=.-]{30}", opaque],
  ["supabase key", "sbp_ sb_secret_", "[A-Za-z0-9_-]{20}"],
  ["atlassian token", "ATATT3 ATCTT3 ATBB", "[A-Za-z0-9_=-]{28}", base64],
  ["hubspot token", "pat-na1- pat-eu1- pat-na2-", "[0-9a-f]{8}-[0-9a-f]{4}"],
  ["new relic key", "NRAK- NRJS- NRII- NRAL-", "[A-Za-z0-9_-]{19}"],
  ["heroku key", "HRKU-", "[A-Za-z0-9_-]{30}"],
  ["netlify token", "nfp_", "[A-Za-z0-9_]{30}"],
  ["square token", "sq0csp- sq0atp-", "[A-Za-z0-9_-]{22}"],
];

// Of these the prefix says what it is and stays; only what follows it is replaced.
const keptRows: readonly Row[] = [
  ["azure secret", "7Q~ 8Q~", "(?<=[A-Za-z0-9_~.-]{3}[78]Q~)(?=[A-Za-z0-9_~.-]{31})", opaque],
  ["discord webhook", "/api/webhooks/", "(?=[0-9]{15,21}/[A-Za-z0-9_-]{30})", base64],
  ["terraform token", ".atlasv1.", "(?=[A-Za-z0-9_-]{40})"],
  ["telegram token", ":AA", String.raw`(?<=(?<![0-9])[0-9]{8,10}:AA)(?=[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-]))`],
  [
    "signature",
    "sig= X-Amz-Signature= X-Goog-Signature=",
    String.raw`(?<=(?:[?&]|u0026|&amp;)[A-Za-z-]{0,20}=)(?=[A-Za-z0-9%+/=]{20})`,
    base64,
  ],
];

function tokenDetector([kind, , body, tail = word]: Row, prefix: string, keeps: boolean): Detector {
  const head = new RegExp(`${keeps ? "" : fresh}${escape(prefix)}${body}`, "y");
  return (text, at) => {
    head.lastIndex = at;
    if (!head.test(text)) return undefined;
    return { kind, keep: keeps ? prefix : "", end: head.lastIndex, tail };
  };
}

const escape = (literal: string): string => literal.replaceAll(/[.$+]/g, String.raw`\$&`);

const pemHead = /-----BEGIN (?:[A-Z0-9]{1,16} )?PRIVATE KEY(?: BLOCK)?(?:-----)?/y;
const gap = String.raw`(?:\s|\\{1,7}[nrt])`;
const pemLine = [
  String.raw`(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\n\\]{0,100}`,
  "[A-Za-z0-9+/=]{20,100}",
  "(?<=[A-Za-z0-9+/=]{20})[A-Za-z0-9+/=]+",
  `=?[A-Za-z0-9+/]{1,76}={0,2}(?=${gap}{0,4}(?:-----END|$))`,
].join("|");
// A key that was cut off ends with the last line that can be a part of it.
const pemTail: Tail = {
  unit: new RegExp(`${gap}{0,8}(?:${pemLine})`, "y"),
  last: new RegExp(`${gap}{0,8}-----END [A-Z0-9 ]{0,40}(?:-----)?`, "y"),
  ahead: 220,
};

const pem: Detector = (text, at) => {
  pemHead.lastIndex = at;
  return pemHead.test(text) ? { kind: "private key", keep: "", end: pemHead.lastIndex, tail: pemTail } : undefined;
};

const nothing: Tail = { unit: /(?!)/y, ahead: 0 };
// Not into scripts that are written without blanks: text in them is not to be held back.
const urlHead =
  /(?<keep>:\/\/[^\s/?#@:"'`<>\\\u2E80-\uFFFF]{0,128}:)(?!\[redacted: )[^\s/?#"'`<>\\\u2E80-\uFFFF]{1,256}(?=@[^\s@"'`<>])|(?<only>:\/\/)(?=[^\s/?#@:]{0,80}[0-9])[^\s/?#@:"'`<>\\\u2E80-\uFFFF]{16,256}(?=@[^\s@"'`<>])/y;

/** User and password in a URL; a user alone only if it looks like a token. */
const url: Detector = (text, at) => {
  urlHead.lastIndex = at;
  const groups = urlHead.exec(text)?.groups;
  if (!groups) return undefined;
  const { keep = "://" } = groups;
  return { kind: "password", keep, end: urlHead.lastIndex, tail: nothing };
};

function byPrefix(): Map<string, Detector[]> {
  const all: [string, Detector][] = [
    ["-----BEGIN", pem],
    ["://", url],
  ];
  const add = (list: readonly Row[], keeps: boolean): void => {
    for (const row of list) {
      for (const prefix of row[1].split(" ")) all.push([prefix, tokenDetector(row, prefix, keeps)]);
    }
  };
  add(rows, false);
  add(keptRows, true);
  // The longest prefix is found; the shorter ones that it begins with are tried after it.
  const prefixes = [...new Set(all.map(([prefix]) => prefix))].sort((a, b) => b.length - a.length);
  return new Map(
    prefixes.map((found) => [
      found,
      all
        .filter(([prefix]) => found.startsWith(prefix))
        .sort(([a], [b]) => b.length - a.length)
        .map(([, detector]) => detector),
    ]),
  );
}

/** What to try where one of these literals is found. */
export const literalDetectors: ReadonlyMap<string, Detector[]> = byPrefix();
export const literalTrigger: string = [...literalDetectors.keys()].map(escape).join("|");
