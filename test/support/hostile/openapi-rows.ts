import type { Row } from "./rows.ts";

// Requests made from the API's own document: each field of each address with values that it cannot have.

type Schema = {
  type?: string | string[];
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  $ref?: string;
  maxLength?: number;
};
type Parameter = { name: string; in: "path" | "query" | "header"; schema: Schema };
type Operation = {
  "x-scope"?: string;
  security?: unknown[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
};
export type Document = {
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, Schema> };
};

export type Address = {
  method: string;
  path: string;
  scope?: string | undefined;
  isOpen: boolean;
  operation: Operation;
};

/** Every address of the document. */
export function addressesOf(document: Document): Address[] {
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      scope: operation["x-scope"],
      isOpen: operation.security?.length === 0,
      operation,
    })),
  );
}

/** The path of an address with its parameters filled in. */
export function fill(path: string, values: Record<string, string>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => values[name] ?? "call-1-1");
}

const json = "Content-Type: application/json";

function resolve(document: Document, schema: Schema | undefined): Schema {
  const name = schema?.$ref?.split("/").at(-1);
  return (name === undefined ? schema : document.components?.schemas?.[name]) ?? {};
}

function typesOf(document: Document, given: Schema): Set<string> {
  const schema = resolve(document, given);
  const of = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((one) => [...typesOf(document, one)]);
  return new Set(
    [...(Array.isArray(schema.type) ? schema.type : [schema.type ?? ""]), ...of].filter((type) => type !== ""),
  );
}

const samples: readonly [type: string, value: unknown][] = [
  ["string", "text"],
  ["number", -1.5],
  ["boolean", true],
  ["null", null],
  ["array", [[[]]]],
  ["object", { a: { b: {} } }],
];

/** Bodies with one field of a wrong type, or without one that is needed. */
export function fieldRows(document: Document, values: Record<string, string>, auth: string): Row[] {
  return addressesOf(document).flatMap(({ method, path, operation }) => {
    const schema = resolve(document, operation.requestBody?.content["application/json"]?.schema);
    const target = fill(path, values);
    return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
      const types = typesOf(document, field);
      if (types.size === 0) return [];
      const fits = (type: string): boolean => types.has(type) || (type === "number" && types.has("integer"));
      return samples
        .filter(([type]) => !fits(type))
        .map(([type, value]): Row => {
          const body = JSON.stringify({ agent: "clerk", input: "x", [name]: value });
          return {
            what: `${method} ${target} with ${name}: ${type}`,
            send: { method, path: target, headers: [auth, json], body },
            status: [400],
          };
        });
    });
  });
}

const badQuery = ["-1", "1e9", "0x10", "NaN", "%00", "'; DROP", "9".repeat(40), "%F0%28%8C%28", "[object Object]"];

/** Parameters of the query that are numbers or one of a list, with what is none. */
export function queryRows(document: Document, values: Record<string, string>, auth: string): Row[] {
  return addressesOf(document).flatMap(({ method, path, operation }) =>
    (operation.parameters ?? [])
      .filter((parameter) => parameter.in === "query")
      .filter(({ schema }) => schema.type === "integer" || schema.enum !== undefined)
      .flatMap(({ name }) =>
        badQuery.map((value): Row => {
          const target = `${fill(path, values)}?${name}=${value.replaceAll(" ", "%20")}`;
          return { what: `${method} ${target}`, send: { method, path: target, headers: [auth] }, status: [400] };
        }),
      ),
  );
}

const badIds = [
  "%00",
  "x%00y",
  "%2e%2e",
  "..%2f..%2fetc%2fpasswd",
  "%252e%252e%252f",
  "..;",
  "%0d%0aSet-Cookie:%20a=b",
  "*",
  "%7Bdrover%7D:r:owing",
  "a:channel",
  "%C0%AE%C0%AE",
  "%E2%80%AE",
  "x".repeat(300),
  "9".repeat(128),
  "__proto__",
  "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
];

/** Ids in the path that no run, call or session can have. */
export function pathRows(document: Document, auth: string): Row[] {
  return addressesOf(document)
    .filter(({ path }) => path.includes("{"))
    .flatMap(({ method, path, operation }) => {
      const needsBody = operation.requestBody !== undefined;
      return badIds.map((id): Row => {
        const target = path.replaceAll(/\{\w+\}/g, id);
        const headers = needsBody ? [auth, json] : [auth];
        return {
          what: `${method} ${target.slice(0, 120)}`,
          send: { method, path: target, headers, ...(needsBody ? { body: '{"input":"x","value":"x"}' } : {}) },
          // Two dots are resolved before anything is looked up, and may lead to another page of ours.
          status: id === "%2e%2e" ? [200, 400, 404, 405] : [400, 404, 405],
        };
      });
    });
}
