/** The shapes of /api, as the server sends them. `null` is "not measured, or does not apply". */

export type Phase = "unloaded" | "loading" | "ready" | "failed" | "restarting";

export interface ModelInfo {
  name: string;
  path: string;
  arch: string | null;
  size_bytes: number | null;
}

export interface ServerState {
  phase: Phase;
  progress: number | null;
  error: string | null;
  model: ModelInfo | null;
  settings: SettingValues;
  report: Record<string, unknown> | null;
  queue: { running: number; waiting: number; limit: number };
  memory: { budget_mib: number | null; used_mib: number | null; available_mib: number | null };
  version: string;
}

export type SettingValue = boolean | number | string | null;
export type SettingValues = Record<string, SettingValue>;

export interface SettingSchema {
  key: string;
  label: string;
  help: string;
  kind: "bool" | "int" | "float" | "choice" | "text";
  choices: string[] | null;
  /** What a choice means, for those that are explained. */
  choice_help: Record<string, string>;
  minimum: number | null;
  maximum: number | null;
  default: SettingValue;
  nullable: boolean;
  group: string;
  experimental: boolean;
  lossy: boolean;
  takes: "next turn" | "reload";
  /** What no value stands for, where there may be none. */
  null_means: string | null;
  applies_if: Record<string, SettingValue[]> | null;
}

export interface Settings {
  schema: SettingSchema[];
  values: SettingValues;
  pending_reload: string[];
  /** What was not taken as it was stored, and what the command line decided. */
  notices: string[];
}

/** What a token costs at the moment, averaged over the last few. */
export interface TurnMetrics {
  index: number;
  tok_s: number | null;
  effective_tok_s: number | null;
  stall_ms: number | null;
  compute_ms: number | null;
  draft_ms: number | null;
  other_ms: number | null;
  hit_pct: number | null;
  mib_per_token: number | null;
  acceptance_pct: number | null;
  tokens_per_pass: number | null;
  rss_mib: number | null;
  cache_budget_mib: number | null;
}

export interface ConversationHead {
  id: string;
  title: string;
  /** Seconds since the epoch. */
  created: number;
  updated: number;
}

export interface Message {
  id: string;
  role: "user" | "assistant";
  content: string;
  reasoning: string | null;
  created: number;
  state: "complete" | "running" | "stopped" | "failed";
  stats: Record<string, unknown> | null;
}

export interface Conversation extends ConversationHead {
  messages: Message[];
}

export interface RunHead {
  id: string;
  name: string;
  label: string | null;
  created: number;
  model: string | null;
  spec: string | null;
  tokens: number;
  tok_s: number | null;
  effective_tok_s: number | null;
  hit_pct: number | null;
  imported: boolean;
  speculated: boolean;
  /** Why the file cannot be read, if it cannot. */
  error: string | null;
}

export type Numbers = (number | null)[];

export type Part = "compute" | "stall" | "draft" | "other";

/** Curves of a run. `x` is the first token of each point; `turns` are tokens that begin a turn. */
export interface RunSeries {
  x: number[];
  tokens: number;
  window: number;
  effective_tok_s: Numbers;
  tok_s: Numbers;
  parts: Record<Part, Numbers>;
  ms_per_token: Record<Part, number | null>;
  hit_pct: Numbers;
  mib_per_token: Numbers;
  turns: number[];
  /** Decodes with a draft that confirmed 0, 1, 2, ... tokens. */
  confirmed: number[];
  offered_at: number[];
  accepted_at: number[];
}

export type Cell = number | string | boolean | null;

export interface RunDetail {
  name: string;
  preamble: Record<string, string>;
  columns: string[];
  rows: Cell[][];
  n_rows: number;
  series: RunSeries | null;
  summary: Record<string, Cell> | null;
  trailer: Record<string, string> | null;
  notices: string[];
}

export interface Comparison {
  labels: string[];
  rows: { key: string; kind: "summary" | "setting"; values: Cell[]; differs: boolean }[];
  series: RunSeries[];
  notices: string[];
}

export interface GlossaryEntry {
  name: string;
  unit: string;
  meaning: string;
  /** Its meaning in rows of tokens, in the preamble, and in the trailer, where it occurs there. */
  where: Partial<Record<Place, { meaning: string; unmeasured: string }>>;
}

export type Place = "token" | "load" | "done";

export interface ModelEntry {
  reference: string;
  name: string;
  size_bytes: number;
  quant: string | null;
  source: string;
  loaded: boolean;
  /** Why it cannot be loaded, if something speaks against it. */
  problem: string | null;
}

export interface Pull {
  id: string;
  reference: string;
  state: "waiting" | "listing" | "fetching" | "done" | "cancelled" | "failed" | "interrupted" | "deleted";
  bytes_total: number | null;
  bytes_done: number;
  bytes_per_s: number | null;
  path: string | null;
  error: string | null;
}

/** What is in a model's file, from its header. */
export interface Inspection {
  name: string | null;
  architecture: string;
  file_bytes: number;
  n_parameters: number;
  n_tensors: number;
  n_layer: number;
  context_length: number | null;
  embedding_length: number | null;
  vocabulary: number | null;
  has_chat_template: boolean;
  nextn: { claimed_layers: number; usable: boolean; missing: string[] };
  streamable: boolean;
  not_streamable: string | null;
  dense_bytes: number;
  experts: {
    n_expert: number;
    n_expert_used: number;
    moe_layers: number[];
    total_bytes: number;
    expert_bytes_min: number;
    expert_bytes_max: number;
    layer_demand_bytes: number;
    token_demand_bytes: number;
  } | null;
  types: { type: string; tensors: number; dense_bytes: number; expert_bytes: number }[];
}

export type Verdict = "resident" | "streams" | "thrashes" | "too-big" | "not-streamable";

/** Whether a model runs on the server's machine, and how fast about. */
export interface Plan {
  verdict: Verdict;
  file_bytes: number;
  n_ctx: number;
  threads: number;
  n_expert: number;
  memory: {
    available: number;
    source: string;
    floor: number;
    dense: number;
    context: { kv: number; recurrent: number; compute: number };
    checkpoint: number;
    snapshots: number;
    draft_context: number;
    draft_dense: number;
    page_tables: number;
    left_for_experts: number;
    experts: number;
    layer_demand: number;
    token_demand: number;
    cliff: number;
    auto_cache: number;
    limited_by: string;
  };
  disk: { direct: boolean; note: string | null; rates: { lanes: number; bytes_per_s: number }[] } | null;
  estimate: {
    hit_rate: [number, number];
    tok_s: [number, number];
    tok_s_resident: number;
    tok_s_no_cache: number;
  } | null;
  notes: string[];
}
