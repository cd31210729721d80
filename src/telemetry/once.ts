/** Acts for the first call alone. */
export function once<T = void>(act: (value: T) => void): (value: T) => void {
  let acted = false;
  return (value) => {
    if (!acted) act(value);
    acted = true;
  };
}
