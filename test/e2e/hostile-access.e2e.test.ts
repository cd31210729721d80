// Those who may not, against the real server process over sockets: other tenants, keys without a right, forms of somebody
// else. Each row is answered with the right status, tells nothing, and changes nothing that is kept. Catches: an address
// that forgot to ask.
import { beforeAll, describe, expect, test } from "vitest";
import { addressesOf, type Document, fill } from "../support/hostile/openapi-rows.ts";
import { isProblem, type Row } from "../support/hostile/rows.ts";
import type { SignedIn, Site } from "../support/hostile/site.ts";
import { useAttack } from "../support/hostile/use-attack.ts";
import { v1ForeignRows } from "../support/hostile/v1-rows.ts";
import { sendRaw, toRequestText } from "../support/raw-http.ts";

const attack = useAttack();
const { expectRows, values } = attack;
let site: Site;
let document: Document;
beforeAll(() => {
  ({ site, document } = attack);
});
const json = "Content-Type: application/json";
const formType = "Content-Type: application/x-www-form-urlencoded";
const page = "Accept: text/html";

test("runs of another tenant, at each address, are as good as none", async () => {
  const rows = addressesOf(document)
    .filter(({ path }) => path.includes("{runId}"))
    .flatMap(({ method, path, operation, scope }): Row[] => {
      const body = operation.requestBody
        ? {
            body: '{"input":"x","value":"x"}'.replace(
              path.endsWith("/answer") ? '"input":"x",' : path.endsWith("/input") ? ',"value":"x"' : /.*/s,
              path.endsWith("/answer") || path.endsWith("/input") ? "" : "{}",
            ),
          }
        : {};
      return [site.runs.beta, site.runs.none].flatMap(({ waiting, ended }) =>
        [waiting, ended].map((run) => ({
          what: `${method} ${fill(path, values(run))} as acme`,
          send: {
            method,
            path: fill(path, values(run)),
            headers: [site.auth.acme, ...(operation.requestBody ? [json] : [])],
            ...body,
          },
          status: scope === "admin" ? [403, 404] : [404],
          also: (answer) => (/hello|"done"|\bpay\b/.test(answer.body) ? "it tells of the run" : isProblem(answer)),
        })),
      );
    });
  const other = site.runs.beta.waiting;
  const pages = [`/ui/runs/${other}`, `/ui/runs/${other}/turns/1`, `/ui/runs/${other}/turns/1/text`];
  await expectRows([
    ...rows,
    ...pages.map(
      (path): Row => ({
        what: `${path} as acme`,
        send: { path, headers: [site.auth.acme, page] },
        status: [404],
        also: ({ body }) => (/hello/.test(body) ? "it shows the run" : undefined),
      }),
    ),
    { what: "a list of another tenant", send: { path: "/runs?tenant=beta", headers: [site.auth.acme] }, status: [400] },
    {
      what: "a list as acme",
      send: { path: "/runs", headers: [site.auth.acme] },
      status: [200],
      also: ({ body }) => (/beta-|free-/.test(body) ? "it lists others' runs" : undefined),
    },
    {
      what: "a search for another tenant's run",
      send: { path: "/runs?search=beta", headers: [site.auth.acme] },
      status: [200],
      also: ({ body }) => (/beta-/.test(body) ? "it finds others' runs" : undefined),
    },
    {
      what: "the counts as acme",
      send: { path: "/counts", headers: [site.auth.acme] },
      status: [200, 403],
      also: ({ body }) => (/"waiting":(?!1\b)\d/.test(body) ? "it counts others' runs" : undefined),
    },
    ...["/fleet", "/metrics", "/ui/fleet", "/ui/queues", "/ui/queues/api/queues"].flatMap((path): Row[] =>
      [site.auth.acme, site.auth.acmeAdmin].map((auth) => ({
        what: `${path}, of all, as a tenant`,
        send: { path, headers: [auth] },
        status: [403],
      })),
    ),
    ...[`/runs/${site.runs.beta.ended}`, `/runs/${site.runs.none.ended}`].map(
      (path): Row => ({
        what: `DELETE ${path} as acme's admin`,
        send: { method: "DELETE", path, headers: [site.auth.acmeAdmin] },
        status: [404],
      }),
    ),
    {
      what: "a start for another tenant",
      send: {
        method: "POST",
        path: "/runs",
        headers: [site.auth.acme, json],
        body: '{"agent":"echo","input":"x","tenant":"beta"}',
      },
      status: [400, 403],
    },
    {
      what: "a start under another tenant's id",
      send: {
        method: "POST",
        path: "/runs",
        headers: [site.auth.acme, json],
        body: `{"agent":"clerk","input":"hello","runId":"${other}"}`,
      },
      status: [404, 409],
    },
  ]);
});

test("responses of another tenant are as good as none", async () => {
  const { response = "", auth } = site;
  expect(response).toMatch(/^resp_/);
  await expectRows([...v1ForeignRows(response, auth.acme), ...v1ForeignRows(response, auth.acmeAdmin)]);
});

describe("keys", () => {
  test("none, expired, removed and made up, at each address", async () => {
    const addresses = addressesOf(document).filter(({ isOpen }) => !isOpen);
    const made = (n: number): string => `127.0.1.${(n % 250) + 1}`;
    await expectRows(
      addresses.flatMap(({ method, path }, index): Row[] => {
        const target = fill(path, values(site.runs.none.waiting));
        const row = (what: string, headers: string[], from: string): Row => ({
          what: `${method} ${target}, ${what}`,
          send: { method, path: target, headers },
          status: [401],
          also: isProblem,
          from,
        });
        return [
          row("no key", [], "127.0.0.1"),
          row("expired", [site.auth.expired], made(index * 3)),
          row("removed", [site.auth.removed], made(index * 3 + 1)),
          row("made up", [`Authorization: Bearer drv_abc_${"x".repeat(43)}`], made(index * 3 + 2)),
        ];
      }),
    );
  });

  test("without the scope that an address wants", async () => {
    const { reader, starter, decider } = site.auth;
    const without: Record<string, string[]> = {
      start: [reader, decider],
      read: [starter, decider],
      decide: [reader, starter],
      admin: [reader, starter, decider],
    };
    const rows = addressesOf(document).flatMap(({ method, path, scope, operation }) =>
      (without[scope ?? ""] ?? []).map((auth): Row => {
        const target = fill(path, values(site.runs.none.waiting));
        return {
          what: `${method} ${target} wants ${scope}`,
          send: { method, path: target, headers: [auth, json], ...(operation.requestBody ? { body: "{}" } : {}) },
          status: [403],
          also: isProblem,
        };
      }),
    );
    expect(rows.length).toBeGreaterThan(20);
    await expectRows(rows);
  });

  test("guessed: after some tries of one address the answer is to wait", async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 25; n += 1) {
      const headers = [`Authorization: Bearer drv_abc_${String(n).padStart(43, "x")}`];
      statuses.push(
        (await sendRaw(toRequestText({ path: "/runs", headers }), { port: site.port, from: "127.0.7.7" })).status,
      );
    }
    expect(statuses.slice(0, 20).every((status) => status === 401)).toBe(true);
    expect(statuses.slice(20)).toEqual([429, 429, 429, 429, 429]);
  });
});

describe("forms", () => {
  let mine: SignedIn;
  let other: SignedIn;
  let old: SignedIn;
  beforeAll(async () => {
    mine = await site.signIn("admin");
    other = await site.signIn("decider").catch(() => site.signIn("admin"));
    old = await site.signIn("admin");
    await site.signOut(old);
  });

  test("without their token, with another's, with one of before, from elsewhere", async () => {
    const run = `/ui/runs/${site.runs.none.waiting}`;
    const call = `${run}/calls/${site.callId}`;
    const actions = [
      `${run}/cancel`,
      `${run}/retry`,
      `${run}/send`,
      `${run}/delete`,
      `${call}/approve`,
      `${call}/deny`,
      `${call}/answer`,
    ];
    const api = [
      `/runs/${site.runs.none.waiting}/cancel`,
      `/runs/${site.runs.none.waiting}/calls/${site.callId}/approve`,
    ];
    const fields = (csrf: string): string =>
      new URLSearchParams({ csrf, reason: "x", text: "x", input: "x", value: "x" }).toString();
    const good = fields(mine.csrf);
    await expectRows(
      [...actions, ...api, "/logout"].flatMap((path): Row[] => {
        const row = (what: string, headers: string[], body: string, status = [403]): Row => ({
          what: `${path}, ${what}`,
          send: { method: "POST", path, headers: [formType, ...headers], body },
          status,
        });
        return [
          row("no token", [mine.cookie], "reason=x"),
          row("an empty token", [mine.cookie], fields("")),
          row("another's token", [mine.cookie], fields(other.csrf)),
          row("a token of before", [mine.cookie], fields(old.csrf)),
          row("the token twice, one of them wrong", [mine.cookie], `csrf=x&${good.replace("csrf", "csrf[]")}`),
          row("the token in the query", [mine.cookie], "reason=x"),
          row("another site's origin", [mine.cookie, "Origin: https://evil.example"], good),
          row("no origin to tell", [mine.cookie, "Origin: null"], good),
          row("a page of another site", [mine.cookie, "Sec-Fetch-Site: cross-site"], good),
          row("a page of a neighbour", [mine.cookie, "Sec-Fetch-Site: same-site"], good),
          row("a cookie of before", [old.cookie], fields(old.csrf), [401]),
          row("a cookie that was made up", [`Cookie: drover=${"A".repeat(43)}`], good, [401]),
          row(
            "two cookies",
            [`Cookie: drover=${"A".repeat(43)}; ${mine.cookie.slice("Cookie: ".length)}`],
            fields(other.csrf),
            [401, 403],
          ),
          row("no cookie", [], good, [401]),
        ];
      }),
    );
  });

  test("that lead away after signing in, or split the answer", async () => {
    const nexts = [
      "//evil.example",
      "https://evil.example",
      "/\\evil.example",
      "\t//evil.example",
      "/%0d%0aSet-Cookie:%20a=b",
      "/\r\nSet-Cookie: a=b",
      "javascript:alert(1)",
      "/.//evil.example",
      "data:text/html,x",
    ];
    await expectRows(
      nexts.flatMap((next): Row[] => [
        {
          what: `GET /login?next=${next}`,
          send: { path: `/login?next=${encodeURIComponent(next)}`, headers: [mine.cookie, page] },
          status: [303],
          also: ({ headers, head }) =>
            /^\/(?![/\\])/.test(headers.get("location") ?? "") && !/^set-cookie: a=b/im.test(head)
              ? undefined
              : "it leads away",
        },
        {
          what: `GET /login?next=${next}, not signed in`,
          send: {
            path: `/login?next=${encodeURIComponent(next)}"><script>alert(1)</script>`.replaceAll(/[<>" ]/g, (c) =>
              encodeURIComponent(c),
            ),
            headers: [page],
          },
          status: [200],
          also: ({ body }) => (body.includes("<script>alert") ? "it is not escaped" : undefined),
        },
      ]),
    );
  });

  test("that would lead away after they did something", async () => {
    const path = `/ui/runs/${site.runs.none.ended}/cancel`;
    const backs = [
      "//evil.example",
      "https://evil.example/",
      "/\\evil.example",
      "javascript:alert(1)",
      "/\r\nX-Evil: 1",
      "/.//evil.example",
    ];
    await expectRows(
      backs.map(
        (back): Row => ({
          what: `back to ${back}`,
          send: {
            method: "POST",
            path,
            headers: [formType, mine.cookie, page],
            body: new URLSearchParams({ csrf: mine.csrf, back }).toString(),
          },
          status: [200, 303, 400, 409],
          also: ({ headers, head }) =>
            /^\/(?![/\\])/.test(headers.get("location") ?? "/") && !/^x-evil/im.test(head)
              ? undefined
              : "it leads away",
        }),
      ),
    );
  });

  test("of signing in, from elsewhere, too large, and as another type", async () => {
    const body = "key=drv_x&next=/";
    await expectRows([
      {
        what: "from another site",
        send: { method: "POST", path: "/login", headers: [formType, "Origin: https://evil.example"], body },
        status: [403],
      },
      {
        what: "too large",
        send: { method: "POST", path: "/login", headers: [formType], body: `key=${"x".repeat(20_000)}` },
        status: [413],
      },
      {
        what: "as JSON",
        send: { method: "POST", path: "/login", headers: [json], body: '{"key":"x"}' },
        status: [415],
      },
      {
        what: "as broken parts",
        send: {
          method: "POST",
          path: "/login",
          headers: ["Content-Type: multipart/form-data; boundary=x"],
          body: "--y\r\n\r\n",
        },
        status: [415],
      },
      {
        what: "as parts without a boundary",
        send: { method: "POST", path: "/login", headers: ["Content-Type: multipart/form-data"], body: "x" },
        status: [415],
      },
      {
        what: "with a file for a key",
        send: {
          method: "POST",
          path: "/login",
          headers: ["Content-Type: multipart/form-data; boundary=x"],
          body: '--x\r\nContent-Disposition: form-data; name="key"; filename="a"\r\n\r\ndrv\r\n--x--\r\n',
        },
        status: [415],
      },
      {
        what: "with a name that pollutes",
        send: { method: "POST", path: "/login", headers: [formType], body: "__proto__[key]=x&constructor=x" },
        status: [401],
      },
    ]);
  });
});
