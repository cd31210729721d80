import { makeDocument } from "../../src/http/runs/openapi.ts";
import { createRunsApi } from "../../src/http/runs/runs-api.ts";
import { createServiceRoutes } from "../../src/http/runs/service-routes.ts";
import type { HttpDeps } from "../../src/http/types.ts";

type Schema = {
  type?: string | string[];
  $ref?: string;
  enum?: unknown[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  minimum?: number;
  maximum?: number;
};
type Answer = { description: string; content?: Record<string, { schema: Schema }> };
type Operation = {
  tags: string[];
  summary: string;
  description?: string;
  security: unknown[];
  "x-scope"?: string;
  parameters?: { name: string; in: string; required: boolean; schema: Schema; description: string }[];
  requestBody?: { required: boolean; content: Record<string, { schema: Schema }> };
  responses: Record<string, Answer>;
};
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

function readDocument(): Document {
  // Addresses are described without anything of what they are served over.
  const deps = { settings: { requestTimeoutMs: 30_000 } } as HttpDeps;
  const api = createRunsApi(deps);
  return makeDocument([createServiceRoutes(deps, api), api]) as Document;
}

const link = (name: string): string => `[${name}](#${name.toLowerCase()})`;

/** A schema in a few words. */
function brief(schema: Schema): string {
  if (schema.$ref) return link(schema.$ref.split("/").at(-1) ?? "");
  if (schema.enum) return schema.enum.map((value) => `\`${String(value)}\``).join(" ");
  const parts = schema.anyOf ?? schema.oneOf;
  if (parts) return [...new Set(parts.map(brief))].join(" or ");
  if (schema.type === "array") return `list of ${brief(schema.items ?? {})}`;
  return plain(schema);
}

function plain({ type, minimum, maximum }: Schema): string {
  const name = Array.isArray(type) ? type.join(" or ") : (type ?? "any JSON");
  if (minimum === undefined || maximum === undefined || maximum > 1e9) return name;
  return `${name}, ${minimum} to ${maximum}`;
}

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

function fieldsOf({ properties = {}, required = [] }: Schema): string {
  const rows = Object.entries(properties).map(
    ([name, schema]) =>
      `| \`${name}\`${required.includes(name) ? "" : "?"} | ${cell(brief(schema))} | ${cell(schema.description ?? "")} |`,
  );
  return ["| Field | Type | |", "| --- | --- | --- |", ...rows].join("\n");
}

function whoMay(operation: Operation): string {
  if (operation.security.length === 0) return "Needs no key.";
  return operation["x-scope"] ? `Scope \`${operation["x-scope"]}\`.` : "Any key.";
}

function describe(method: string, path: string, operation: Operation): string {
  const { summary, description = "" } = operation;
  return [
    `### \`${method.toUpperCase()} ${path}\``,
    `${summary}. ${description}`.trim(),
    whoMay(operation),
    ...parametersOf(operation),
    ...bodyOf(operation),
    answersOf(operation),
  ].join("\n\n");
}

function parametersOf({ parameters = [] }: Operation): string[] {
  if (parameters.length === 0) return [];
  const rows = parameters.map(
    ({ name, in: place, required, schema, description }) =>
      `| \`${name}\`${required ? "" : "?"} | ${place} | ${cell(brief(schema))} | ${cell(description)} |`,
  );
  return [["| Parameter | In | Type | |", "| --- | --- | --- | --- |", ...rows].join("\n")];
}

function bodyOf({ requestBody }: Operation): string[] {
  const schema = requestBody?.content["application/json"]?.schema;
  if (!schema) return [];
  return schema.$ref ? [`Body: ${brief(schema)}`] : ["Body:", fieldsOf(schema)];
}

function answersOf({ responses }: Operation): string {
  const isProblem = (status: string): boolean => Number(status) >= 400;
  const good = Object.entries(responses).filter(([status]) => !isProblem(status));
  const problems = Object.keys(responses).filter(isProblem);
  return [
    ...good.map(([status, answer]) => `- ${status}: ${answer.description}${bodyWords(answer)}`),
    ...(problems.length > 0 ? [`- Problems: ${problems.join(", ")}`] : []),
  ].join("\n");
}

function bodyWords({ content = {} }: Answer): string {
  const [found] = Object.entries(content);
  if (!found) return "";
  const [type, { schema }] = found;
  return type === "application/json" ? ` (${brief(schema)})` : ` (\`${type}\`)`;
}

/** Every address, under a heading per subject. */
export function makeEndpoints(): string {
  const { paths } = readDocument();
  const byTag = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const [tag = ""] = operation.tags;
      byTag.set(tag, [...(byTag.get(tag) ?? []), describe(method, path, operation)]);
    }
  }
  return [...byTag].map(([tag, texts]) => [`## ${tag}`, ...texts].join("\n\n")).join("\n\n");
}

/** What goes in and comes out, by name. */
export function makeSchemas(): string {
  const { schemas } = readDocument().components;
  return Object.entries(schemas)
    .map(([name, schema]) => {
      const what = schema.properties ? fieldsOf(schema) : brief(schema);
      return [`### ${name}`, ...(schema.description ? [schema.description] : []), what].join("\n\n");
    })
    .join("\n\n");
}
