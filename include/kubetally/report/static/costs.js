// The Costs page. Money arrives as text and is shown as it came; it becomes a number for drawing only.

const PALETTE = 12; // colours for teams or namespaces; the smaller ones beyond share one
const STATES = {
  complete: ["Complete", "All 24 hours are published, nothing is missing and everything has a price."],
  partial: ["Partly", "Not all 24 hours are published yet."],
  gaps: ["Gaps", "For some of the time no source could say what ran."],
  unpriced: ["Unpriced", "Something has no price; its cost is unknown and not in the totals."],
  missing: ["No data", "Nothing is published for this day."],
};
const LINES = {
  shared: ["Shared", "Costs of the cluster that belong to nobody in particular"],
  system: ["System", "What nodes reserve for themselves: capacity minus allocatable"],
  idle: ["Idle", "Capacity nobody asked for or used"],
  uncovered: ["Uncovered", "Cost of time for which no source could say what ran"],
  unmounted: ["Unmounted", "Volumes no pod uses"],
  recovery: ["Recovery", "What the rates charge more or less than the cluster costs"],
  correction: ["Correction", "Later changes to closed months"],
  overcommit: ["Overcommit", "Pods asked for or used more than there was; takes back what would be charged twice"],
  unpriced: ["Unpriced", "No price was found; the cost is unknown, not zero"],
};
const SIGNS = {
  complete: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 0 0 0-13zm3 5-3.7 4L5 8.4",
  partial: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 0 0 0-13zM8 1.5v13M10.6 3.2v9.6M12.8 5.4v5.2",
  gaps: "M8 1.8 15 14H1zM8 6.2v4M8 12.1v.1",
  unpriced: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 0 0 0-13zM6.4 6.3a1.7 1.7 0 1 1 2.4 1.6c-.5.3-.8.6-.8 1.2v.3M8 11.8v.1",
  missing: "M3.5 8h9",
};
const NARROW = window.matchMedia("(max-width: 640px)");

const $ = (id) => document.getElementById(id);
const controls = $("controls");
let options = { clusters: [], models: [], currencies: [] };
let shown = null; // the last answer
let hidden = new Set(); // groups switched off in the chart
let chart = null;
let pending = null;

// --- small helpers -------------------------------------------------------------------------------

function node(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function sign(state) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const attributes = {
    viewBox: "0 0 16 16", fill: "none", stroke: "currentColor", "stroke-width": "1.6",
    "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true", class: `sign ${state}`,
  };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  path.setAttribute("d", SIGNS[state]);
  svg.append(path);
  return svg;
}

function money(text, extra = {}) {
  if (text === null || text === undefined) return "–";
  const style = { minimumFractionDigits: 2, maximumFractionDigits: 2, ...extra };
  try {
    return new Intl.NumberFormat(undefined, { style: "currency", currency: shown.currency, ...style }).format(text);
  } catch {
    return `${new Intl.NumberFormat(undefined, style).format(text)} ${shown.currency}`;
  }
}

const exactly = (text) => (text === null ? "Unknown" : `Exactly ${text} ${shown.currency}`);
const number = (value) => new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 }).format(value);
const percent = (text, extra = {}) =>
  text === null
    ? "–"
    : new Intl.NumberFormat(undefined, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1, ...extra }).format(text);
const day = (text, style = { weekday: "short", day: "numeric", month: "short" }) =>
  new Intl.DateTimeFormat(undefined, { ...style, timeZone: "UTC" }).format(new Date(`${text}T00:00:00Z`));
const moment = (text) =>
  `${new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" }).format(new Date(text))} UTC`;
const count = (n, one, many = `${one}s`) => `${new Intl.NumberFormat().format(n)} ${n === 1 ? one : many}`;
const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;
const idOf = (group) => `${group.kind}/${group.name}`;
const styles = () => getComputedStyle(document.documentElement);
const colour = (name) => styles().getPropertyValue(`--${name}`).trim();
const listed = (days) => {
  const full = { day: "numeric", month: "short", year: "numeric" };
  return days.length > 1 ? `${day(days[0], { day: "numeric", month: "short" })} – ${day(days.at(-1), full)}` : day(days[0], full);
};

function labelOf(group) {
  if (group.kind === "line" || group.kind === "unpriced") return LINES[group.name]?.[0] ?? group.name;
  return group.kind === "unowned" ? "Unowned" : group.name;
}

function hintOf(group) {
  if (group.kind === "line" || group.kind === "unpriced") return LINES[group.name]?.[1] ?? "";
  return group.kind === "unowned" ? "Namespaces for which no rule in owners.yaml names an owner" : "";
}

// --- asking --------------------------------------------------------------------------------------

function chosen() {
  const form = new FormData(controls);
  const asked = new URLSearchParams();
  for (const name of ["range", "by", "cluster", "model", "currency"]) {
    if (form.get(name)) asked.set(name, form.get(name));
  }
  return asked;
}

async function ask(path, signal) {
  let answer;
  try {
    answer = await fetch(path, { signal, headers: { Accept: "application/json" }, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer.", "Check that Airflow is still running, then try again.");
  }
  if (answer.ok) return answer.json();
  if (answer.status === 401) throw new Problem("You are signed out.", "Reload the page to sign in again.");
  if (answer.status === 403) throw new Problem("You may not see costs.", "Ask an administrator for the role Viewer.");
  const told = await answer.json().catch(() => ({}));
  if (told.error) throw new Problem(told.error, told.remedy);
  throw new Problem(`The server answered with ${answer.status}.`, "The api-server's log says why.");
}

class Problem extends Error {
  constructor(message, remedy = "") {
    super(message);
    this.remedy = remedy;
  }
}

async function refresh() {
  const asked = chosen();
  history.replaceState(null, "", `?${asked}`);
  $("download").href = `api/costs.csv?${asked}`;
  pending?.abort();
  pending = new AbortController();
  document.body.classList.add("loading");
  try {
    shown = await ask(`api/costs?${asked}`, pending.signal);
    show();
  } catch (error) {
    if (error.name === "AbortError") return;
    explain(error);
  }
  document.body.classList.remove("loading");
}

// --- showing -------------------------------------------------------------------------------------

function show() {
  const isEmpty = shown.empty !== null;
  $("content").hidden = isEmpty;
  $("message").hidden = !isEmpty;
  $("download").setAttribute("aria-disabled", String(isEmpty));
  document.body.dataset.ready = isEmpty ? "empty" : `${shown.range}/${shown.by}`;
  if (isEmpty) {
    showEmpty();
    return;
  }
  $("subtitle").textContent = `${listed(shown.days)} · published until ${moment(shown.data_until)}`;
  showCards();
  showChart();
  showDays();
  showNotes();
  showTable();
}

function showCards() {
  const { parts, total } = shown;
  const changed =
    total.change_share === null
      ? "nothing to compare with"
      : Number(total.change) === 0
        ? "as much as in the period before"
        : `${percent(total.change_share.replace("-", ""))} ${Number(total.change) > 0 ? "more" : "less"} than the period before`;
  const card = (title, swatch, text, exact, detail, hint) =>
    node("dl", { class: "card", title: hint },
      node("dt", {}, swatch ? node("span", { class: `swatch ${swatch}` }) : null, title),
      node("dd", { class: "amount", title: exactly(exact) }, money(text)),
      node("dd", { class: "detail" }, detail));
  const part = (name, title, swatch, hint) =>
    card(title, swatch, parts[name].shown, parts[name].cost, parts[name].share === null ? "" : `${percent(parts[name].share)} of the total`, hint);
  $("cards").replaceChildren(
    card("Total", "", total.shown, total.cost, changed, "What the clusters cost in the period"),
    part("teams", "Owned workloads", "", "What the pods of all owners cost"),
    part("unowned", "Unowned", "c-unowned", "Pods nobody owns"),
    part("idle", "Idle", "c-idle", "Capacity nobody asked for or used"),
    part("other", "System and other", "c-system", "What nodes reserve for themselves, time without data, overcommit and shared costs"),
  );
}

/** The chart's series, lowest first: at most PALETTE teams, the rest as one, then lines of the cluster. */
function stacks() {
  const teams = shown.groups.filter((group) => group.kind === "owner" || group.kind === "namespace");
  const others = shown.groups.filter((group) => group.kind === "unowned" || group.kind === "line");
  const first = teams.slice(0, teams.length > PALETTE ? PALETTE - 1 : PALETTE);
  const rest = teams.slice(first.length);
  const ranked = first.map((group) => group.name).sort();
  for (const group of teams) group.colour = rest.includes(group) ? "rest" : `c${ranked.indexOf(group.name)}`;
  for (const group of others) group.colour = group.kind === "unowned" ? "unowned" : (LINES[group.name] && colour(group.name) ? group.name : "rest");
  const series = [...first, ...others].filter((group) => !hidden.has(idOf(group))).map((group) => ({
    label: labelOf(group), colour: group.colour, texts: group.days, values: group.days.map(Number),
  }));
  const visible = rest.filter((group) => !hidden.has(idOf(group)));
  if (visible.length) {
    series.splice(first.length, 0, {
      label: `${visible.length} smaller`, colour: "rest", texts: null,
      values: shown.days.map((_, n) => visible.reduce((sum, group) => sum + Number(group.days[n]), 0)),
    });
  }
  return series;
}

function showChart() {
  chart ??= echarts.init($("chart"), null, { renderer: "canvas" });
  const series = stacks();
  const [ink, muted, line] = ["ink", "muted", "line"].map(colour);
  const font = styles().fontFamily || "sans-serif";
  const left = NARROW.matches ? 44 : 64;
  const few = shown.days.length <= 8;
  chart.setOption({
    animationDuration: 250,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily || font, color: ink },
    grid: { left, right: NARROW.matches ? 4 : 8, top: 16, bottom: 26 },
    tooltip: {
      trigger: "axis", axisPointer: { type: "shadow", shadowStyle: { opacity: 0.08 } }, confine: true,
      padding: 0, borderWidth: 0, backgroundColor: "transparent", extraCssText: "box-shadow: none",
      formatter: (points) => chartTip(points[0].dataIndex, series),
    },
    xAxis: {
      type: "category", data: shown.days, axisTick: { show: false }, axisLine: { lineStyle: { color: line } },
      axisLabel: {
        color: muted, hideOverlap: true,
        formatter: (text) => day(text, few && !NARROW.matches ? { weekday: "short", day: "numeric", month: "short" } : { day: "numeric", month: "short" }),
      },
    },
    yAxis: {
      type: "value", splitLine: { lineStyle: { color: line } }, splitNumber: 4,
      min: ({ min, max }) => (min < 0 && -min < max / 100 ? 0 : null), // a sliver of overcommit needs no axis
      axisLabel: { color: muted, formatter: (value) => money(String(value), { notation: "compact", minimumFractionDigits: 0, maximumFractionDigits: 1 }) },
    },
    series: series.map((stack) => ({
      name: stack.label, type: "bar", stack: "cost", data: stack.values, barMaxWidth: 56, barCategoryGap: "28%",
      itemStyle: { color: colour(stack.colour) },
      emphasis: { disabled: true },
    })),
  }, true);
}

function chartTip(n, series) {
  const rows = series
    .map((stack) => ({ ...stack, text: stack.texts ? stack.texts[n] : String(stack.values[n]) }))
    .filter((row) => row.text !== null && Number(row.text) !== 0)
    .reverse();
  const state = shown.status[n].state;
  return node("div", { class: "chart-tip" },
    node("h3", {}, sign(state), `${day(shown.days[n])} · ${STATES[state][0].toLowerCase()}`),
    node("table", {}, node("tbody", {},
      ...rows.map((row) => node("tr", {},
        node("td", {}, node("span", { class: `swatch c-${row.colour} ${row.colour}` }), row.label),
        node("td", { class: "number" }, money(row.text)))),
      node("tr", { class: "total" }, node("td", {}, "Total"), node("td", { class: "number" }, money(shown.total.days[n]))))));
}

function showDays() {
  $("days").replaceChildren(...shown.status.map((status, n) => {
    const text = `${day(status.day)}: ${STATES[status.state][0]}. ${details(status).join(" ")}`;
    const mark = node("button", { type: "button", class: "mark", "aria-label": text, "data-state": status.state }, sign(status.state));
    const open = () => openTip(mark, status, n);
    mark.addEventListener("pointerenter", open);
    mark.addEventListener("focus", open);
    mark.addEventListener("click", open);
    mark.addEventListener("pointerleave", closeTip);
    mark.addEventListener("blur", closeTip);
    return node("li", {}, mark);
  }));
  const seen = [...new Set(shown.status.map((status) => status.state))];
  $("states").replaceChildren(...Object.keys(STATES).filter((state) => seen.includes(state)).map((state) =>
    node("li", { title: STATES[state][1] }, sign(state), STATES[state][0])));
}

function details(status) {
  if (!status.clusters.length) return [STATES.missing[1]];
  return status.clusters.flatMap((about) => {
    const told = [];
    const hours = `${about.hours_published} of 24 hours published`;
    const provisional = about.hours_published - about.hours_daily;
    told.push(provisional > 0 ? `${hours}, ${provisional} of them provisional.` : `${hours}.`);
    if (Number(about.uncovered_node_hours)) told.push(`${number(about.uncovered_node_hours)} node-hours without data (${percent(about.uncovered_share)}).`);
    if (about.open_gaps) told.push(`${count(about.open_gaps, "open gap")}.`);
    if (about.acknowledged_gaps) told.push(`${count(about.acknowledged_gaps, "acknowledged gap")}.`);
    if (Number(about.unpriced_node_hours)) told.push(`${number(about.unpriced_node_hours)} node-hours without a price.`);
    if (about.rejects) told.push(`${count(about.rejects, "odd object")} left out.`);
    if (about.warnings) told.push(`${count(about.warnings, "check warns", "checks warn")}.`);
    if (about.failed_checks) told.push(`${count(about.failed_checks, "failed check")}: newer data was held back.`);
    if (about.revision > 1) told.push(`Revision ${about.revision}.`);
    return status.clusters.length > 1 ? told.map((text, n) => (n ? text : `${about.cluster}: ${text}`)) : told;
  });
}

function openTip(mark, status, n) {
  const tip = $("tip");
  tip.replaceChildren(
    node("h3", {}, sign(status.state), `${day(status.day)} · ${STATES[status.state][0].toLowerCase()}`),
    node("div", {}, shown.total.days[n] === null ? "No costs." : `Cost ${money(shown.total.days[n])}`),
    node("ul", {}, ...details(status).map((text) => node("li", {}, text))),
  );
  tip.hidden = false;
  const at = mark.getBoundingClientRect();
  const size = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(12, Math.min(at.left + at.width / 2 - size.width / 2, innerWidth - size.width - 12))}px`;
  tip.style.top = `${at.top - size.height - 8 > 8 ? at.top - size.height - 8 : at.bottom + 8}px`;
}

function closeTip() {
  $("tip").hidden = true;
}

function showNotes() {
  const notes = [];
  const add = (state, text, why) =>
    notes.push(node("li", {}, sign(state), node("div", {}, text, why ? node("div", { class: "why" }, why) : null)));
  const where = (about) => (options.clusters.length > 1 ? `${about.cluster}: ` : "");
  for (const about of shown.unpriced) {
    const what = about.node ? `Node ${about.node}${about.instance_type ? ` (${about.instance_type})` : ""}` : "Pods on an unknown node";
    const when = about.first_day === about.last_day ? day(about.first_day) : listed([about.first_day, about.last_day]);
    add("unpriced",
      `${where(about)}${what} had no price for ${count(about.hours, "hour")} (${when}): ${number(about.cpu_core_hours)} core-hours and ${number(about.memory_gib_hours)} GiB-hours are in no total.`,
      `${sentence(about.reason)} Add it to the cluster's price sheet, or let the prices DAG look it up.`);
  }
  const gaps = new Map();
  for (const gap of shown.gaps) {
    const key = [gap.cluster, gap.start_at, gap.end_at, gap.is_acknowledged].join("|");
    const known = gaps.get(key) ?? { ...gap, datasets: new Set(), texts: new Set() };
    known.datasets.add(gap.dataset);
    if (gap.acknowledgement || !gap.is_acknowledged) known.texts.add(gap.acknowledgement || `${gap.source}: ${gap.reason}`);
    gaps.set(key, known);
  }
  for (const gap of gaps.values()) {
    add("gaps",
      `${where(gap)}No ${[...gap.datasets].join(" and ")} data from ${moment(gap.start_at)} to ${moment(gap.end_at)}${gap.is_acknowledged ? ", acknowledged" : ""}; its cost is on the line Uncovered.`,
      [...gap.texts].join(" "));
  }
  const partly = shown.status.filter((status) => status.state === "partial").map((status) => day(status.day));
  if (partly.length) add("partial", `Not all hours are published yet: ${partly.join(", ")}.`);
  const missing = shown.status.filter((status) => status.state === "missing").map((status) => status.day);
  if (missing.length) add("missing", `Nothing is published for ${count(missing.length, "day")} of this period${missing.length < 6 ? `: ${missing.map((text) => day(text)).join(", ")}` : ""}.`);
  $("notes").hidden = !notes.length;
  $("notes-list").replaceChildren(...notes);
}

function showTable() {
  const byNamespace = shown.by === "namespace";
  $("table-title").textContent = byNamespace ? "By namespace" : "By owner";
  const comparable = shown.total.before !== null;
  $("compared").textContent = !comparable
    ? shown.hours_before === 0
      ? `Nothing is published for the period before (${listed(shown.before)}).`
      : `Not compared with ${listed(shown.before)}: ${count(shown.hours, "published hour")} now, ${new Intl.NumberFormat().format(shown.hours_before)} then.`
    : `Compared with ${listed(shown.before)}${shown.hours === shown.hours_before ? "" : `: ${count(shown.hours, "published hour")} now, ${new Intl.NumberFormat().format(shown.hours_before)} then`}.`;
  $("table-head").replaceChildren(node("tr", {},
    node("th", { scope: "col" }, byNamespace ? "Namespace" : "Owner"),
    byNamespace ? node("th", { scope: "col", class: "wide" }, "Owner") : null,
    node("th", { scope: "col", class: "number" }, "Cost"),
    node("th", { scope: "col", class: "share" }, "Share"),
    node("th", { scope: "col", class: "number wide" }, "Before"),
    node("th", { scope: "col", class: "number" }, "Change")));
  let isFirstLine = true;
  $("table-body").replaceChildren(...shown.groups.map((group) => {
    const isLine = group.kind === "line" || group.kind === "unpriced";
    const kind = isLine ? (isFirstLine ? "line first-line" : "line") : "";
    if (isLine) isFirstLine = false;
    return node("tr", { class: kind, "data-group": idOf(group) },
      node("th", { scope: "row", class: "name", title: hintOf(group) }, nameCell(group)),
      byNamespace ? node("td", { class: "wide" }, ownerCell(group)) : null,
      node("td", { class: "number", title: exactly(group.cost) }, group.shown === null ? "unknown" : money(group.shown)),
      node("td", { class: "share" }, shareCell(group)),
      node("td", { class: "number wide", title: group.before === null ? "" : exactly(group.before) }, money(group.before)),
      changeCell(group));
  }));
  const total = shown.total;
  $("table-foot").replaceChildren(node("tr", {},
    node("th", { scope: "row" }, "Total"),
    byNamespace ? node("td", { class: "wide" }) : null,
    node("td", { class: "number", title: exactly(total.cost), id: "table-total" }, money(total.shown)),
    node("td", { class: "share" }),
    node("td", { class: "number wide" }, money(total.before)),
    changeCell(total)));
}

function nameCell(group) {
  const label = labelOf(group);
  if (group.kind === "unpriced") {
    return node("span", { class: "toggle" }, node("span", { class: "swatch c-none" }), label);
  }
  const button = node("button", { type: "button", class: "toggle", "aria-pressed": String(!hidden.has(idOf(group))), title: "Show or hide in the chart" },
    node("span", { class: `swatch c-${group.colour} ${group.colour}` }), label);
  button.addEventListener("click", () => {
    const key = idOf(group);
    if (!hidden.delete(key)) hidden.add(key);
    button.setAttribute("aria-pressed", String(!hidden.has(key)));
    showChart();
  });
  return button;
}

function ownerCell(group) {
  if (group.kind !== "namespace") return "";
  const named = group.owners.filter((owner) => owner !== "unowned").join(", ");
  const tag = group.owners.includes("unowned") ? node("span", { class: "tag" }, "unowned") : null;
  return node("span", {}, named, named && tag ? " " : "", tag ?? "");
}

function shareCell(group) {
  if (group.share === null) return "";
  const bar = node("i", { class: `c-${group.colour} ${group.colour}` });
  bar.style.width = `${Math.max(0, Math.min(100, Number(group.share) * 100))}%`;
  return node("div", { class: "share-cell" },
    node("span", { class: "meter", "aria-hidden": "true" }, bar),
    node("span", { class: "number" }, percent(group.share)));
}

function changeCell(group) {
  if (group.change === null) return node("td", { class: "number change" }, "–");
  const direction = Number(group.change) > 0 ? "up" : Number(group.change) < 0 ? "down" : "";
  const share = group.change_share === null ? (direction ? "new" : "") : percent(group.change_share, { signDisplay: "exceptZero" });
  return node("td", { class: `number change ${direction}`, title: exactly(group.change) },
    money(group.change, { signDisplay: "exceptZero" }), node("small", {}, share));
}

// --- nothing to show, something wrong ------------------------------------------------------------

function showEmpty() {
  $("subtitle").textContent = "Nothing to show yet";
  const code = (text) => node("code", {}, text);
  const item = (...children) => node("li", {}, ...children);
  const body = {
    no_match: [
      node("h2", {}, "No costs match this choice"),
      node("p", {}, "Nothing is published for this cluster, cost model and currency. Choose another one above."),
    ],
    nothing_landed: [
      node("h2", {}, "The warehouse is empty"),
      node("p", {}, "It answers, but no source has told it anything yet. What to do next:"),
      node("ol", {},
        item("Name your cluster and its source in ", code("include/config/clusters.yaml"), " (the demo cluster is there already)."),
        item("Switch on the DAGs ", code("scrape"), ", ", code("prices"), ", ", code("costs_hourly"), " and ", code("costs_daily"), "."),
        item("Costs appear here when the first hour is published. For a day in the past run ", code("make day D=2026-11-03"), ", for more of them ", code("airflow backfill create --dag-id costs_daily --from-date … --to-date …"), ".")),
    ],
    not_published: [
      node("h2", {}, "Data has arrived, but no costs are published yet"),
      node("p", {}, "Either the first run is still at work, or a check holds it back: only what passes the checks is published. Look at the runs of ", code("costs_hourly"), " and ", code("costs_daily"), "."),
      shown.failed_checks.length
        ? node("ul", {}, ...shown.failed_checks.map((check) => item(`${check.cluster}, ${moment(check.start_at)}: ${check.check_name} expected ${check.expected}, found ${check.observed}`)))
        : null,
    ],
  }[shown.empty];
  $("message").replaceChildren(...body.filter(Boolean), again());
}

function explain(error) {
  $("content").hidden = true;
  $("message").hidden = false;
  document.body.dataset.ready = "error";
  $("download").setAttribute("aria-disabled", "true");
  $("subtitle").textContent = "Costs cannot be shown";
  $("message").replaceChildren(
    node("h2", {}, error instanceof Problem ? error.message : "The page met an error of its own."),
    node("p", {}, error instanceof Problem ? error.remedy : String(error)),
    again());
}

function again() {
  const button = node("button", { type: "button", class: "button" }, "Try again");
  button.addEventListener("click", start);
  return button;
}

// --- starting ------------------------------------------------------------------------------------

function fill(select, values, first) {
  const known = select.value;
  select.replaceChildren(...(first ? [node("option", { value: "" }, first)] : []), ...values.map((value) => node("option", { value }, value)));
  if (values.includes(known)) select.value = known;
}

function restore() {
  const asked = new URLSearchParams(location.search);
  for (const [name, value] of asked) {
    const field = controls.elements[name];
    if (field) field.value = value;
  }
}

async function start() {
  try {
    options = await ask("api/options");
  } catch (error) {
    controls.hidden = true;
    explain(error);
    return;
  }
  controls.hidden = !options.clusters.length; // nothing to choose from yet
  const one = options.clusters.length === 1;
  fill($("cluster"), one ? [] : options.clusters, one ? options.clusters[0] : "All clusters");
  fill($("model"), options.models, null);
  fill($("currency"), options.currencies, null);
  $("currency-field").hidden = options.currencies.length < 2;
  restore();
  await refresh();
}

controls.addEventListener("change", (event) => {
  if (event.target.name === "by") hidden = new Set();
  refresh();
});
controls.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => event.key === "Escape" && closeTip());
document.addEventListener("themechange", () => shown && shown.empty === null && showChart());
NARROW.addEventListener("change", () => shown && shown.empty === null && showChart());
new ResizeObserver(() => chart?.resize()).observe($("chart"));
await start();
