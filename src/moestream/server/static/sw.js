// Keeps the shell of the app (HTML, scripts, styles, icons) so that it opens without network and
// can say that the server is away. Answers of the API are never stored.
const VERSION = "7b92d5a7e9161828";
const SHELL = ["/","/assets/ComparePage-C3PIHnu4.js","/assets/Key-aYfJtlCl.js","/assets/ModelsPage-Bq6S3J16.js","/assets/RunPage-BffeuB-c.js","/assets/RunsPage-DsDNXnbc.js","/assets/SettingsPage-D4QBjoN-.js","/assets/charts-BLm7XYgh.js","/assets/files-B4md8HNM.js","/assets/highlight-ql0yxG58.js","/assets/index-ChAS64-T.css","/assets/index-DsJ5r8G3.js","/assets/useLoad-DCFH2XmM.js","/icon-192.png","/icon-512.png","/icon-maskable-512.png","/icon.svg","/manifest.webmanifest","/theme.js"];
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
