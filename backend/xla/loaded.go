package xla

import (
	"slices"
	"sync"
	"weak"

	"github.com/gomlx/go-xla/pjrt"
)

// loadedPrograms lets programs of the same key share one loaded executable, and keeps the most recently used ones after
// their last [Executable] was finalized. A client and its groups have one: see [Options.KeepLoaded].
type loadedPrograms struct {
	keep int // how many unused programs stay loaded

	mu sync.Mutex // protects what follows, and the uses of each program
	// The pointers are weak, because the garbage collector frees the program of an Executable that nobody finalizes.
	byKey map[string]weak.Pointer[loadedProgram]
	idle  []*loadedProgram // without uses, the least recently used first
}

type loadedProgram struct {
	*pjrt.LoadedExecutable
	key  string
	uses int
}

// find returns the loaded program of a key, or nil. The caller must release it.
func (l *loadedPrograms) find(key string) *loadedProgram {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.byKey[key].Value()
	if p == nil {
		return nil
	}
	if p.uses++; p.uses == 1 {
		l.idle = slices.DeleteFunc(l.idle, func(other *loadedProgram) bool { return other == p })
	}
	return p
}

// add shares a program. The caller must release it. If another goroutine has added a program of the same key since the
// caller's find, the caller keeps its program for itself.
func (l *loadedPrograms) add(key string, loaded *pjrt.LoadedExecutable) *loadedProgram {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &loadedProgram{LoadedExecutable: loaded, key: key, uses: 1}
	if l.keep > 0 && key != "" && l.byKey[key].Value() == nil {
		if l.byKey == nil {
			l.byKey = map[string]weak.Pointer[loadedProgram]{}
		}
		l.byKey[key] = weak.Make(p)
	}
	return p
}

// release ends a use. An unused program is destroyed, at once or when too many others were used after it.
func (l *loadedPrograms) release(p *loadedProgram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.uses--; p.uses > 0 {
		return
	}
	if l.byKey[p.key].Value() != p {
		_ = p.Destroy()
		return
	}
	if l.idle = append(l.idle, p); len(l.idle) > l.keep {
		l.destroy(l.idle[0])
		l.idle = l.idle[1:]
	}
}

// close destroys the unused programs and keeps no more of them.
func (l *loadedPrograms) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.idle {
		l.destroy(p)
	}
	l.keep, l.idle = 0, nil
}

func (l *loadedPrograms) destroy(p *loadedProgram) {
	delete(l.byKey, p.key)
	_ = p.Destroy()
}
