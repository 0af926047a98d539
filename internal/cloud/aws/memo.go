package aws

import (
	"context"
	"maps"
	"sync"
	"time"
)

// memo remembers answers for a while. One caller at a time asks for what is
// missing, so that many launches at once do not ask for the same.
type memo[K comparable, V any] struct {
	now  func() time.Time
	keep time.Duration
	turn chan struct{}

	mu   sync.Mutex
	have map[K]remembered[V]
}

type remembered[V any] struct {
	value V
	at    time.Time
}

func newMemo[K comparable, V any](now func() time.Time, keep time.Duration) *memo[K, V] {
	return &memo[K, V]{now: now, keep: keep, turn: make(chan struct{}, 1), have: map[K]remembered[V]{}}
}

// get gives what is known of the keys, after asking for those that are not.
// What ask does not give is missing from the answer.
func (m *memo[K, V]) get(ctx context.Context, keys []K, ask func(ctx context.Context, missing []K) (map[K]V, error)) (map[K]V, error) {
	found, missing := m.known(keys)
	if len(missing) == 0 {
		return found, nil
	}
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-m.turn }()
	// Another caller may have asked meanwhile.
	if found, missing = m.known(keys); len(missing) == 0 {
		return found, nil
	}
	fresh, err := ask(ctx, missing)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, v := range fresh {
		m.have[k] = remembered[V]{v, m.now()}
	}
	maps.Copy(found, fresh)
	return found, nil
}

func (m *memo[K, V]) known(keys []K) (map[K]V, []K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[K]V, len(keys))
	var missing []K
	asked := map[K]bool{}
	for _, k := range keys {
		switch v, ok := m.have[k]; {
		case ok && m.now().Sub(v.at) < m.keep:
			found[k] = v.value
		case !asked[k]:
			asked[k] = true
			missing = append(missing, k)
		}
	}
	return found, missing
}
