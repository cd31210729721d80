// The Grafana dashboard as code; `npm run docs` writes it to ops/grafana/drover.json.
import {
  DashboardBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableRefresh,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DataqueryBuilder } from "@grafana/grafana-foundation-sdk/prometheus";
import { PanelBuilder as StatBuilder } from "@grafana/grafana-foundation-sdk/stat";
import { PanelBuilder as TimeseriesBuilder } from "@grafana/grafana-foundation-sdk/timeseries";
import { rows } from "./panels.ts";
import { by, of, type Panel } from "./queries.ts";

const datasource = { type: "prometheus", uid: "${datasource}" };
function toPanel({ title, about, unit, queries, stat }: Panel): StatBuilder | TimeseriesBuilder {
  const builder = stat
    ? new StatBuilder().height(4).span(6)
    : new TimeseriesBuilder().height(8).span(8).fillOpacity(10);
  builder.title(title).description(about).unit(unit).datasource(datasource);
  for (const [index, { expr, legend }] of queries.entries()) {
    const query = new DataqueryBuilder()
      .expr(expr)
      .refId(String.fromCharCode(65 + index))
      .datasource(datasource);
    builder.withTarget(legend === undefined ? query : query.legendFormat(legend));
  }
  return builder;
}

/** The dashboard in Grafana's JSON. */
export function makeDashboard(): string {
  const builder = new DashboardBuilder("Drover")
    .uid("drover")
    .tags(["drover"])
    .description("Runs, agents, tools and what carries them. Made by ops/dashboard.ts.")
    .refresh("30s")
    .time({ from: "now-3h", to: "now" })
    .timezone("browser")
    .tooltip(DashboardCursorSync.Crosshair)
    .withVariable(new DatasourceVariableBuilder("datasource").label("Data source").type("prometheus"))
    .withVariable(
      new QueryVariableBuilder("agent")
        .label("Agent")
        .datasource(datasource)
        .query(`label_values(${of("runsStarted")}, ${by("agent")})`)
        .refresh(VariableRefresh.OnTimeRangeChanged)
        .multi(true)
        .includeAll(true)
        .allValue(".*"),
    );
  for (const row of rows) {
    builder.withRow(new RowBuilder(row.title));
    for (const panel of row.panels) builder.withPanel(toPanel(panel));
  }
  return JSON.stringify(builder.build(), undefined, 2);
}
