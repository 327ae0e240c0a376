// Keeps the shell of the app (HTML, scripts, styles, icons) so that it opens without network and
// can say that the server is away. Answers of the API are never stored.
const VERSION = "fda3d5aa7eed61fd";
const SHELL = ["/","/assets/ComparePage-BRDeXi-l.js","/assets/Key-CcywWLbH.js","/assets/ModelsPage-C6Zl9RgF.js","/assets/RunPage-CmkRyszF.js","/assets/RunsPage-IbUh-aKX.js","/assets/SettingsPage-2powIoMy.js","/assets/charts-BJrTeUx3.js","/assets/files-DL7N_C9t.js","/assets/highlight-2Pd0lj3h.js","/assets/index-ChAS64-T.css","/assets/index-DpsRSyXj.js","/assets/useLoad-Ca0sO6Wy.js","/icon-192.png","/icon-512.png","/icon-maskable-512.png","/icon.svg","/manifest.webmanifest","/theme.js"];
const CACHE = `moestream-shell-${VERSION}`;

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(CACHE)
      .then((cache) => cache.addAll(SHELL.map((url) => new Request(url, { cache: "reload" }))))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) =>
        Promise.all(
          names
            .filter((name) => name.startsWith("moestream-shell-") && name !== CACHE)
            .map((name) => caches.delete(name)),
        ),
      )
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== self.location.origin) return;
  if (request.mode === "navigate" && url.pathname === "/") {
    // The page itself comes from the server while there is one, so that an update is seen at once.
    event.respondWith(
      fetch(request).catch(async () => (await caches.match("/")) ?? Response.error()),
    );
    return;
  }
  if (!SHELL.includes(url.pathname)) return; // everything else, /api and /v1 above all
  event.respondWith(
    caches.open(CACHE).then(async (cache) => (await cache.match(url.pathname)) ?? fetch(request)),
  );
});
