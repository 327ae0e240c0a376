import { describe, expect, it } from "vitest";

import { type Route, hrefOf, parseRoute } from "./route";

describe("routes", () => {
  const routes: Route[] = [
    { page: "chat", id: null },
    { page: "chat", id: "a b/c" },
    { page: "runs", id: null, compare: null },
    { page: "runs", id: "2025-a.csv", compare: null },
    { page: "runs", id: null, compare: ["a", "b c"] },
    { page: "models" },
    { page: "settings" },
  ];
  it.each(routes)("%o is read as it was written", (route) => {
    expect(parseRoute(hrefOf(route))).toEqual(route);
  });

  it("goes to the chat from anywhere else", () => {
    for (const hash of ["", "#", "#/", "#/nowhere", "#/%"]) {
      expect(parseRoute(hash)).toEqual({ page: "chat", id: null });
    }
  });
});
