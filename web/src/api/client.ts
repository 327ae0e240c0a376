/** Requests to the server: the key is sent along, and whatever fails becomes an `ApiError`. */

import { apiKey, refused } from "./key";

/** What went wrong, in the server's words where it had any. `status` 0: it was not reached. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;
  readonly retryAfter: number | null;

  constructor(
    message: string,
    status: number,
    details: { code?: string | null; param?: string | null; retryAfter?: number | null } = {},
  ) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = details.code ?? null;
    this.param = details.param ?? null;
    this.retryAfter = details.retryAfter ?? null;
  }
}

export interface RequestOptions {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  json?: unknown;
  text?: string;
  signal?: AbortSignal;
}

/** The response as it comes; an `ApiError` unless it is a success. An abort stays an abort. */
export async function request(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers = new Headers();
  const key = apiKey.get();
  if (key !== null) headers.set("Authorization", `Bearer ${key}`);
  const init: RequestInit = { method: options.method ?? "GET", headers, cache: "no-store" };
  if (options.json !== undefined) {
    headers.set("Content-Type", "application/json");
    init.body = JSON.stringify(options.json);
  } else if (options.text !== undefined) {
    headers.set("Content-Type", "text/csv; charset=utf-8");
    init.body = options.text;
  }
  if (options.signal) init.signal = options.signal;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError("The server cannot be reached.", 0);
  }
  if (response.ok) return response;
  if (response.status === 401) refused();
  throw await errorOf(response);
}

export async function json<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const response = await request(path, options);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** One sentence for the person in front of the page. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function errorOf(response: Response): Promise<ApiError> {
  const fallback = `The server answered ${response.status}.`;
  const retry = Number.parseFloat(response.headers.get("Retry-After") ?? "");
  const retryAfter = Number.isFinite(retry) ? retry : null;
  try {
    const body = (await response.json()) as { error?: Record<string, unknown> };
    const { message, code, param } = body.error ?? {};
    return new ApiError(word(message) ?? fallback, response.status, {
      code: word(code),
      param: word(param),
      retryAfter,
    });
  } catch {
    return new ApiError(fallback, response.status, { retryAfter });
  }
}

function word(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
