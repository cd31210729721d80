// Declarations as the compiler writes them (.d.ts), cut into statements. Its output is regular: every statement of a
// module begins at the left margin, and its docstring stands right before it.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";

/** `doc`: the docstring without its stars; `code`: the statement without `export` and `declare`. */
export type Declaration = { name: string; file: string; doc: string; code: string };

type Module = {
  declarations: Map<string, Declaration>;
  /** What a name of the module stands for elsewhere. */
  imports: Map<string, { file: string; name: string }>;
  exports: Map<string, { file: string; name: string }>;
};

export type Declarations = {
  /** The names that a module exports, in its order. */
  exportsOf(file: string): string[];
  /** A name of a module, followed to where it is declared; undefined for one of another package. */
  find(file: string, name: string): Declaration | undefined;
};

/** Has the compiler write the declarations of `src/`. Files are named below it, as `engine/client.ts`. */
export function readDeclarations(): Declarations {
  const dir = mkdtempSync(join(tmpdir(), "drover-docs-"));
  const args = ["-p", "tsconfig.build.json", "--emitDeclarationOnly", "--noCheck", "--isolatedDeclarations", "false"];
  execFileSync("tsc", [...args, "--outDir", dir], { stdio: "inherit" });
  process.once("exit", () => rmSync(dir, { recursive: true, force: true }));
  const modules = new Map<string, Module>();
  const open = (file: string): Module => {
    const known = modules.get(file);
    if (known) return known;
    const module = parse(file, readFileSync(join(dir, file.replace(/\.ts$/, ".d.ts")), "utf8"));
    modules.set(file, module);
    return module;
  };
  const find = (file: string, name: string): Declaration | undefined => {
    const { declarations, imports, exports } = open(file);
    const elsewhere = declarations.has(name) ? undefined : (imports.get(name) ?? exports.get(name));
    return elsewhere ? find(elsewhere.file, elsewhere.name) : declarations.get(name);
  };
  return { find, exportsOf: (file) => [...open(file).exports.keys()] };
}

function parse(file: string, text: string): Module {
  const module: Module = { declarations: new Map(), imports: new Map(), exports: new Map() };
  for (const { doc, code } of cut(text)) {
    const from = /^(?<kind>import|export) (?:type )?\{(?<names>[^}]*)\} from "(?<source>\.[^"]+)";/.exec(code)?.groups;
    if (from) addNames(module, file, from);
    const [, exported, name] =
      /^(export )?(?:declare )?(?:abstract )?(?:type|interface|class|function|const) (\w+)/.exec(code) ?? [];
    if (name === undefined) continue;
    // Overloads of one function are one declaration.
    const before = module.declarations.get(name);
    const plain = code.replace(/^export (?:declare )?|^declare /, "");
    const whole = before ? { ...before, code: `${before.code}\n${plain}` } : { name, file, doc, code: plain };
    module.declarations.set(name, whole);
    if (exported) module.exports.set(name, { file, name });
  }
  return module;
}

function addNames(module: Module, file: string, { kind, names = "", source = "" }: Record<string, string>): void {
  const target = normalize(join(dirname(file), source));
  for (const part of names.split(",")) {
    const [, name, alias] = /^\s*(?:type )?(\w+)(?: as (\w+))?\s*$/.exec(part) ?? [];
    if (name) module[kind === "export" ? "exports" : "imports"].set(alias ?? name, { file: target, name });
  }
}

function* cut(text: string): Generator<{ doc: string; code: string }> {
  let doc: string[] = [];
  let code: string[] = [];
  let inDoc = false;
  for (const line of text.split("\n")) {
    if (code.length === 0 && line.startsWith("/**")) {
      doc = [];
      inDoc = true;
    }
    if (inDoc) {
      doc.push(line);
      inDoc = !line.includes("*/");
    } else if (code.length > 0 || /^\w/.test(line)) {
      code.push(line);
      if (/^\S.*;$|^\}$/.test(line)) {
        yield { doc: plainDoc(doc), code: code.join("\n") };
        doc = [];
        code = [];
      }
    }
  }
}

function plainDoc(lines: string[]): string {
  return lines
    .join("\n")
    .replace(/^\/\*\*/, "")
    .replace(/\*\/$/, "")
    .replaceAll(/^ *\* ?/gm, "")
    .trim();
}
