import { describe, expect, test } from "vitest";
import { hidePassword } from "../src/hide-password.ts";
import { secretsOfEnvironment } from "../src/redaction/known.ts";
import { splitHosts } from "../src/redis-url.ts";

describe("a URL with several hosts", () => {
  test("gives its hosts, with the usual ports where none is named", () => {
    expect(splitHosts("redis+sentinel://a:1,b,[::1]:2/group")).toMatchObject({
      kind: "sentinel",
      hosts: [
        { host: "a", port: 1 },
        { host: "b", port: 26_379 },
        { host: "::1", port: 2 },
      ],
    });
    expect(splitHosts("rediss+cluster://u:p%40w@a:7000,b")?.hosts).toEqual([
      { host: "a", port: 7_000 },
      { host: "b", port: 6_379 },
    ]);
    expect(splitHosts("rediss+cluster://u:p%40w@a:7000,b?ca=/x")?.url.href).toBe("rediss://u:p%40w@a:7000?ca=/x");
  });

  test.each([
    "redis://a:1,b:2",
    "redis+other://a",
    "redis+cluster://",
    "redis+cluster://a:x",
    "redis+cluster://a,,b",
    "",
  ])("is not %j", (text) => expect(splitHosts(text)).toBeUndefined());

  test("is shown without its password and parameters", () => {
    expect(hidePassword("redis+sentinel://ann:secret@a:1,b:2/group/3?sentinelPassword=s")).toBe(
      "redis+sentinel://ann:***@a:1,b:2/group/3?***",
    );
    expect(hidePassword("rediss+cluster://a:7000,b:7001")).toBe("rediss+cluster://a:7000,b:7001");
  });

  test("has its passwords redacted everywhere, as written and as meant", () => {
    const REDIS_URL = "redis+sentinel://:one%21secret@a:1,b:2/group?sentinelPassword=other-secret";
    const secrets = secretsOfEnvironment({ REDIS_URL }).map(({ value }) => value);
    expect(secrets).toEqual(expect.arrayContaining(["one%21secret", "one!secret", "other-secret"]));
  });
});
