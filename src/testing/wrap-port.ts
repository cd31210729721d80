/**
 * A port whose every call goes through `guarded`, which may do it or not. `label`: what is called, as in `store.commit`.
 * What a call throws at once comes out as a rejection.
 */
export function wrapPort<T extends object>(
  name: string,
  port: T,
  guarded: (label: string, call: () => Promise<unknown>) => unknown,
): T {
  return new Proxy(port, {
    get(target, property, receiver): unknown {
      const member: unknown = Reflect.get(target, property, receiver);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) =>
        guarded(`${name}.${String(property)}`, async () => Reflect.apply(member, target, args));
    },
  });
}
