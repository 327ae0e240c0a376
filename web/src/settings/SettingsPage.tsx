/** Every switch of the server's schema. A change is kept at once; some wait for a reload. */

import type { SettingSchema, Settings } from "../api/types";
import { apiKey, rememberKey } from "../api/key";
import { capital, plural } from "../lib/format";
import { useLoad } from "../lib/useLoad";
import { useStore } from "../lib/store";
import { ThemeSwitch } from "../shell/ThemeSwitch";
import { serverState } from "../state/server";
import { loadSettings, settings } from "../state/settings";
import { Icon } from "../ui/Icon";
import { Failed, Page, Spinner } from "../ui/parts";
import { DraftPicker } from "./DraftPicker";
import { ReloadBar } from "./ReloadBar";
import { SettingRow } from "./SettingRow";
import { grouped } from "./logic";

export default function SettingsPage() {
  const all = useStore(settings);
  const loading = useLoad("settings", loadSettings);
  return (
    <Page title="Settings" intro="A change is kept at once and holds for your next answer, unless it says that it waits for a reload.">
      {all !== null ? (
        <SettingsForm all={all} />
      ) : loading.error !== null ? (
        <Failed message={loading.error} retry={loading.reload} />
      ) : (
        <Spinner label="Reading the settings…" />
      )}
      <ThisApp />
    </Page>
  );
}

function SettingsForm({ all }: { all: Settings }) {
  const { schema, values, pending_reload: pending } = all;
  const row = (setting: SettingSchema) =>
    setting.key === "draft_source" ? (
      <DraftPicker key={setting.key} setting={setting} values={values} pending={pending.includes(setting.key)} />
    ) : (
      <SettingRow key={setting.key} {...{ setting, schema, values }} pending={pending.includes(setting.key)} />
    );
  return (
    <>
      {all.notices.length > 0 && (
        <ul className="run-notices">
          {all.notices.map((notice) => (
            <li key={notice}>
              <Icon name="info" size={18} /> <span>{capital(notice)}</span>
            </li>
          ))}
        </ul>
      )}
      {grouped(schema).map(({ group, title, intro, shown, folded }) => (
        <section key={group} className="card settings-group" aria-labelledby={`group-${group}`}>
          <header>
            <h2 id={`group-${group}`}>{title}</h2>
            {intro !== "" && <p>{intro}</p>}
          </header>
          {shown.map(row)}
          {folded.length > 0 && (
            <details className="folded" open={folded.some(({ key }) => pending.includes(key))}>
              <summary>
                <Icon name="chevron" size={16} /> {plural(folded.length, "experimental switch", "experimental switches")}
              </summary>
              {folded.map(row)}
            </details>
          )}
        </section>
      ))}
      <ReloadBar pending={pending} schema={schema} />
    </>
  );
}

/** What belongs to this browser and not to the server. */
function ThisApp() {
  const key = useStore(apiKey);
  const version = useStore(serverState, (state) => state?.version ?? null);
  return (
    <section className="card settings-group" aria-labelledby="group-app">
      <header>
        <h2 id="group-app">This browser</h2>
      </header>
      <div className="setting">
        <div className="setting-text">
          <span className="setting-label">Theme</span>
          <p className="setting-help">As the system has it, or always light or dark.</p>
        </div>
        <div className="setting-control">
          <ThemeSwitch />
        </div>
      </div>
      {key !== null && (
        <div className="setting">
          <div className="setting-text">
            <span className="setting-label">API key</span>
            <p className="setting-help">Kept in this browser. Forget it when the browser is not yours.</p>
          </div>
          <div className="setting-control">
            <button type="button" className="button" onClick={() => rememberKey(null)}>
              Forget the key
            </button>
          </div>
        </div>
      )}
      {version !== null && <p className="version num">moestream {version}</p>}
    </section>
  );
}
