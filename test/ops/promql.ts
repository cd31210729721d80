import { parser } from "@prometheus-io/lezer-promql";

/** What Grafana puts in place of its variables, as far as a parser minds. */
function fillVariables(expr: string): string {
  return expr.replaceAll(/\$__(?:rate_interval|interval|range)/g, "5m").replaceAll(/\$\{?\w+\}?/g, "x");
}

/** Errors of an expression, by where they stand; empty if it parses. */
export function problemsOf(expr: string): string[] {
  const text = fillVariables(expr);
  const problems: string[] = [];
  parser.parse(text).iterate({
    enter: ({ type, from, to }) => {
      if (type.isError) problems.push(`${text.slice(0, from)} >>> ${text.slice(from, to)}`);
    },
  });
  return problems;
}

/** Names of metrics, and of labels, in an expression. */
export function namesIn(expr: string): { metrics: string[]; labels: string[] } {
  const text = fillVariables(expr);
  const metrics: string[] = [];
  const labels: string[] = [];
  parser.parse(text).iterate({
    enter: ({ name, from, to, node }) => {
      const word = text.slice(from, to);
      if (name === "Identifier" && node.parent?.name === "VectorSelector") metrics.push(word);
      if (name === "LabelName") labels.push(word);
    },
  });
  return { metrics, labels };
}
