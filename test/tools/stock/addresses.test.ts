import { describe, expect, test } from "vitest";
import { addressesOf, isPublicAddress, pinnedLookup } from "../../../src/tools/stock/addresses.ts";
import { isAllowedHost, isHostPattern } from "../../../src/tools/stock/host-pattern.ts";

describe("addresses", () => {
  test.each(["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700:4700::1111", "2a00:1450::1"])("%s is public", (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  test.each([
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "4000::1",
    "localhost",
    "",
  ])("%s is not public", (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  test("one private address among public ones refuses the name", async () => {
    const mixed = () =>
      Promise.resolve([{ address: "8.8.8.8", family: 4 } as const, { address: "10.0.0.1", family: 4 } as const]);
    await expect(addressesOf("mixed.example", mixed, false)).rejects.toThrow("not on the public internet");
    expect(await addressesOf("mixed.example", mixed, true)).toHaveLength(2);
  });

  test("an address is taken as it is, a name without addresses is refused", async () => {
    const never = () => Promise.reject(new Error("resolved"));
    expect(await addressesOf("2606:4700::1", never, false)).toEqual([{ address: "2606:4700::1", family: 6 }]);
    await expect(addressesOf("127.0.0.1", never, false)).rejects.toThrow("not on the public internet");
    await expect(addressesOf("none.example", () => Promise.resolve([]), true)).rejects.toThrow("no address");
  });

  test("a pinned lookup answers in both forms", () => {
    const lookup = pinnedLookup([{ address: "8.8.8.8", family: 4 }]);
    const answers: unknown[] = [];
    lookup("evil.example", { all: true }, (...args) => answers.push(args));
    lookup("evil.example", {}, (...args) => answers.push(args));
    expect(answers).toEqual([
      [null, [{ address: "8.8.8.8", family: 4 }]],
      [null, "8.8.8.8", 4],
    ]);
  });
});

describe("host patterns", () => {
  test.each([
    ["https://api.example.com/x", "api.example.com", true],
    ["https://API.example.com./x", "api.example.com", true],
    ["https://api.example.com:443/", "API.Example.com", true],
    ["http://api.example.com/", "api.example.com", true],
    ["https://api.example.com:8443/", "api.example.com", false],
    ["https://api.example.com:8443/", "api.example.com:8443", true],
    ["https://api.example.com/", "api.example.com:8443", false],
    ["https://example.com/", "*.example.com", false],
    ["https://a.b.example.com/", "*.example.com", true],
    ["https://evilexample.com/", "*.example.com", false],
    ["https://example.com.evil.org/", "example.com", false],
    ["https://evil.org/example.com", "example.com", false],
    ["https://evil.org#example.com", "example.com", false],
    ["https://anything.org/", "*", true],
    ["https://anything.org:6379/", "*", false],
    ["http://[::1]:8080/", "[::1]:8080", true],
    ["http://2130706433/", "127.0.0.1", true],
    ["http://0x7f.1/", "example.com", false],
  ])("%s with %s: %s", (url, pattern, expected) => {
    expect(isHostPattern(pattern)).toBe(true);
    expect(isAllowedHost(new URL(url), [pattern])).toBe(expected);
  });

  test.each(["", "https://example.com", "example.com/path", "a.*.com", "*example.com", "exa mple.com", "a..b", ":80"])(
    "%j is no pattern",
    (pattern) => {
      expect(isHostPattern(pattern)).toBe(false);
    },
  );
});
