import type { Answer, Permission, Question, QuestionItem } from "@nacre/client";
import { useState } from "react";
import { client } from "../api";
import { useMayChange } from "../rights";
import { complain } from "../ui/toasts";
import { ActionCard } from "./action-card";
import { type EnvRequest, useLive } from "./live";

/** Whatever waits for a person, answered where it is asked. */
export function Asked() {
  const live = useLive();
  const isMember = useMayChange();
  return (
    <fieldset className="all-asked" disabled={!isMember}>
      {live.transcript.questions.map((asked) =>
        asked.type === "question" ? (
          <QuestionCard key={asked.question_id} question={asked} />
        ) : (
          <PermissionCard key={asked.id} permission={asked} />
        ),
      )}
      {live.actions.map((action) => (
        <ActionCard key={action.id} action={action} />
      ))}
      {live.env.map((request) => (
        <EnvCard key={request.id} request={request} />
      ))}
    </fieldset>
  );
}

function QuestionCard({ question }: { question: Question }) {
  const live = useLive();
  const [answers, setAnswers] = useState<Record<number, string[]>>({});
  const isDone = question.items.every((_, at) => (answers[at] ?? []).some((one) => one.trim() !== ""));
  const send = () => {
    question.items.forEach((item, at) => {
      const given = (answers[at] ?? []).filter((one) => one.trim() !== "");
      const answer: Answer = item.choose === "several" ? given : (given[0] ?? "");
      live.session.answer(question.question_id, answer, at);
    });
  };
  return (
    <form
      className="asked"
      aria-label="The agent asks"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {question.items.map((item, at) => (
        <Item
          key={at}
          item={item}
          name={`${question.question_id}-${at}`}
          given={answers[at] ?? []}
          onChange={(given) => setAnswers({ ...answers, [at]: given })}
        />
      ))}
      <div className="row">
        <button type="submit" className="button primary" disabled={!isDone}>
          Answer
        </button>
        <button type="button" className="button quiet" onClick={() => live.session.answer(question.question_id)}>
          Do not answer
        </button>
      </div>
    </form>
  );
}

interface ItemProps {
  item: QuestionItem;
  name: string;
  given: string[];
  onChange: (given: string[]) => void;
}

function Item({ item, name, given, onChange }: ItemProps) {
  const options = item.options ?? [];
  const own = given.find((one) => !options.some((option) => option.label === one)) ?? "";
  const isMany = item.choose === "several";
  const choose = (label: string) => {
    if (!isMany) return onChange([label]);
    onChange(given.includes(label) ? given.filter((one) => one !== label) : [...given, label]);
  };
  return (
    <fieldset>
      <legend>
        {item.header ? <span className="muted">{item.header} </span> : null}
        {item.text}
      </legend>
      {options.map((option) => (
        <label key={option.label} className="choice">
          <input
            type={isMany ? "checkbox" : "radio"}
            name={name}
            checked={given.includes(option.label)}
            onChange={() => choose(option.label)}
          />
          <span>
            {option.label}
            {option.description ? <span className="muted"> {option.description}</span> : null}
          </span>
        </label>
      ))}
      {item.free_text || options.length === 0 ? (
        <input
          className="input"
          aria-label="Your own answer"
          placeholder="Your own answer"
          value={own}
          onChange={(event) => {
            const rest = isMany ? given.filter((one) => one !== own) : [];
            onChange(event.target.value === "" ? rest : [...rest, event.target.value]);
          }}
        />
      ) : null}
    </fieldset>
  );
}

function PermissionCard({ permission }: { permission: Permission }) {
  const live = useLive();
  return (
    <section className="asked" aria-label="The agent asks for permission">
      <p>
        The agent wants to use <code>{permission.tool}</code>.
      </p>
      {(permission.targets ?? []).map((target) => (
        <pre key={target} className="tool-output">
          {target}
        </pre>
      ))}
      <div className="row">
        <button type="button" className="button primary" onClick={() => live.session.permit(permission.id, true)}>
          Allow
        </button>
        <button type="button" className="button" onClick={() => live.session.permit(permission.id, false)}>
          Refuse
        </button>
      </div>
    </section>
  );
}

/** Values go straight into the sandbox, and never into the conversation. */
function EnvCard({ request }: { request: EnvRequest }) {
  const live = useLive();
  const [isKept, setKept] = useState(false);
  const send = (form: FormData) => {
    const values = Object.fromEntries(request.keys.map(({ key }) => [key, String(form.get(key) ?? "")]));
    const persist = isKept ? Object.keys(values) : [];
    client
      .giveEnv(live.id, { id: request.id, values, persist })
      .then(() => live.envGiven(request.id))
      .catch(complain);
  };
  return (
    <form className="asked" action={send} aria-label="The agent asks for values">
      <p>The agent asks for these values. They go into the sandbox and not into the conversation.</p>
      {request.keys.map(({ key, description }) => (
        <label key={key} className="field">
          <span className="mono">{key}</span>
          <input className="input" name={key} type="password" autoComplete="off" placeholder={description ?? ""} />
        </label>
      ))}
      <label className="choice">
        <input type="checkbox" checked={isKept} onChange={(event) => setKept(event.target.checked)} />
        <span>Keep them as secrets of this session</span>
      </label>
      <div className="row">
        <button type="submit" className="button primary">
          Give
        </button>
      </div>
    </form>
  );
}
