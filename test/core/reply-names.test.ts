import { describe, expect, test } from "vitest";
import { resolveToolName, toLegalName, toLegalNames } from "../../src/core/reply-names.ts";

const offered = ["add", "get_weather", "ping", "files.read", "Upper"];

test.each<[string, string]>([
  ["add", "add"],
  ["ping ", "ping"],
  ["Get_Weather", "get_weather"],
  ["functions.add", "add"],
  ["default_api:get_weather", "get_weather"],
  ["functions.PING", "ping"],
  ["add<|channel|>commentary", "add"],
  ["<|channel|>commentary to=functions.add <|constrain|>json", "add"],
  ["functions.get_weather:0", "get_weather"],
  ["files.read", "files.read"],
  ["files_read", "files.read"],
  ["FILES_READ", "files.read"],
  ["functions.files_read", "files.read"],
  ["upper", "Upper"],
])("%s means %s", (name, real) => {
  expect(resolveToolName(name, offered)).toBe(real);
});

test.each(["weather", "get_weathers", "get-weather", "addd", "", "other.add", "functions.", "constructor"])(
  "%j is nobody's name",
  (name) => {
    expect(resolveToolName(name, offered)).toBeUndefined();
  },
);

test("two tools that differ in case alone are told apart, and a third spelling is neither", () => {
  expect(resolveToolName("Run", ["run", "Run"])).toBe("Run");
  expect(resolveToolName("RUN", ["run", "Run"])).toBeUndefined();
});

describe("legal names", () => {
  test("a legal name stays, another is mended, none is given twice", () => {
    const long = "x".repeat(70);
    const names = ["a.b", "a_b", "a b", "ok-1", long, `${long}y`, "a.b"];
    const legal = toLegalNames(names);
    expect(legal.get("a_b")).toBe("a_b");
    expect(legal.get("ok-1")).toBe("ok-1");
    expect(new Set(legal.values()).size).toBe(legal.size);
    for (const name of legal.values()) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    expect(toLegalNames(names)).toEqual(legal);
  });

  test("a name of nothing becomes one", () => {
    expect(toLegalName("")).toBe("unnamed");
  });
});
