import type { Argument, Command, Help, Option } from "commander";
import type { Context } from "./context.ts";
import { createProgram } from "./program.ts";

/** The page about the command line, made from the program itself. */
export function makeReference(): string {
  const program = createProgram(noContext(), { code: 0 });
  const help = program.createHelp();
  const commands = help.visibleCommands(program).filter((command) => command.name() !== "help");
  return [
    "# Commands",
    "",
    "Made from the program by `npm run docs`. `drover COMMAND --help` tells the same.",
    "",
    "Results go to standard output, remarks and errors to standard error, each error with what to do about it. The exit code",
    "is 0 only when what was asked happened: 1 otherwise, 130 after Ctrl-C. `--json` prints for programs. Colours come on a",
    "terminal alone, and never where `NO_COLOR` is set. Secrets are redacted in all that is printed, and text of models,",
    "tools and people cannot drive the terminal. Settings come from the environment or `.env`: see `.env.example`.",
    "",
    "Completion: `source <(drover completion bash)`, the same for zsh, or `drover completion fish | source`.",
    "",
    ...commands.flatMap((command) => [`- [\`${command.name()}\`](#${anchorOf(command)}): ${command.description()}`]),
    "",
    ...commands.flatMap((command) => toSection(command, help, "drover")),
  ].join("\n");
}

/** Nothing is read or written: the commands are only looked at. */
function noContext(): Context {
  const refuse = (): never => {
    throw new Error("the reference needs no settings");
  };
  const ignore = (): void => {};
  return {
    dir: ".",
    program: "drover",
    config: refuse,
    redactor: refuse,
    output: {
      ...{ line: ignore, write: ignore, json: ignore, secret: ignore, note: ignore, table: ignore },
      mark: (_, text) => text,
      isTerminal: false,
      live: async () => undefined,
    },
  };
}

function anchorOf(command: Command): string {
  return `drover-${command.name()}`;
}

function toSection(command: Command, help: Help, parent: string): string[] {
  const name = `${parent} ${command.name()}`;
  const inner = help.visibleCommands(command).filter((one) => one.name() !== "help");
  const rows = [
    ...command.registeredArguments.map(toArgumentRow),
    ...help
      .visibleOptions(command)
      .filter(({ long }) => long !== "--help")
      .map(toOptionRow),
  ];
  return [
    `${"#".repeat(name.split(" ").length)} ${name}`,
    "",
    `${sentence(command.description())}`,
    "",
    "```sh",
    `${name} ${command.usage()}`.trim(),
    "```",
    "",
    ...(rows.length === 0 ? [] : ["| | |", "| --- | --- |", ...rows, ""]),
    ...inner.flatMap((one) => toSection(one, help, name)),
  ];
}

function toArgumentRow(argument: Argument): string {
  const name = argument.required ? `<${argument.name()}>` : `[${argument.name()}]`;
  return toRow(name, [argument.description, ...choicesOf(argument.argChoices)]);
}

/** A default that depends on who runs the program is told by its description. */
function toOptionRow({ flags, description, argChoices, mandatory }: Option): string {
  return toRow(flags, [description, ...choicesOf(argChoices), ...(mandatory ? ["required"] : [])]);
}

function choicesOf(choices: readonly string[] | undefined): string[] {
  return choices ? [`one of ${choices.join(", ")}`] : [];
}

function toRow(name: string, about: readonly string[]): string {
  const cell = (text: string): string => text.replaceAll("|", String.raw`\|`);
  return `| \`${cell(name)}\` | ${cell(about.filter((part) => part !== "").join("; "))} |`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
