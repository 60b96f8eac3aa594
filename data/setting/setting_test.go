package setting

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func flag(name string) string { return "--" + name }

// A message names its settings as whoever shows it spells them, however it is wrapped, and a user's text stays.
func TestSpelling(t *testing.T) {
	const user = "a `seed` of 5 %s"
	inner := Errorf("`max-seqs` is %d for %q: give %s 3", 4, user, Name("tp"))
	for _, c := range []struct {
		err            error
		plain, spelled string
	}{
		{inner, "`max-seqs` is 4 for \"a `seed` of 5 %s\": give `tp` 3",
			"--max-seqs is 4 for \"a `seed` of 5 %s\": give --tp 3"},
		{fmt.Errorf("%s: %w", user, inner), user + ": " + inner.Error(), user + ": " + Spell(inner, flag)},
		{Errorf("%s: %w; `seed` helps", user, fmt.Errorf("model: %w", inner)),
			user + ": model: " + inner.Error() + "; `seed` helps",
			user + ": model: " + Spell(inner, flag) + "; --seed helps"},
		{Errorf("it fails; %s", Textf("raise `kv` 100%% of %s", user)), "it fails; raise `kv` 100% of " + user,
			"it fails; raise --kv 100% of " + user},
		{errors.Join(inner, errors.New(user), Errorf("no `kv`")), inner.Error() + "\n" + user + "\nno `kv`",
			Spell(inner, flag) + "\n" + user + "\nno --kv"},
		{errors.New(user), user, user},
	} {
		if c.err.Error() != c.plain || Spell(c.err, nil) != c.plain {
			t.Errorf("plain: %q and %q, want %q", c.err.Error(), Spell(c.err, nil), c.plain)
		}
		if got := Spell(c.err, flag); got != c.spelled {
			t.Errorf("spelled: %q, want %q", got, c.spelled)
		}
	}
	wrapped := Errorf("`prefix-file`: %w", fs.ErrNotExist)
	if !errors.Is(fmt.Errorf("here: %w", wrapped), fs.ErrNotExist) {
		t.Error("the error no longer wraps its cause")
	}
	if text, err := json.Marshal([]Text{Textf("`kv` is %d", 1)}); err != nil || string(text) != "[\"`kv` is 1\"]" {
		t.Errorf("JSON is %s, %v", text, err)
	}
}
