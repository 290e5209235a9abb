package demo

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestInventoryFindsProducts(t *testing.T) {
	session, _ := overHTTP(t, "inventory")
	var found resultRows[item]
	call(t, session, "list_products", nil, &found)
	if len(found.Result) != 40 || !slices.IsSortedFunc(found.Result, func(a, b item) int { return strings.Compare(a.SKU, b.SKU) }) {
		t.Fatalf("%d products, want 40 in order of their number", len(found.Result))
	}
	call(t, session, "list_products", map[string]any{"category": "camping", "limit": 3}, &found)
	if len(found.Result) != 3 || found.Result[0].Category != "camping" {
		t.Errorf("camping, 3 at most: %+v", found.Result)
	}
	call(t, session, "list_products", map[string]any{"text": "TENT", "in_stock": true}, &found)
	if len(found.Result) != 1 || found.Result[0].SKU != "CAM-001" {
		t.Errorf("tent: %+v, want CAM-001", found.Result)
	}

	var product item
	call(t, session, "get_product", map[string]any{"sku": "CAM-001"}, &product)
	if product != found.Result[0] {
		t.Errorf("get_product %+v differs from list_products %+v", product, found.Result[0])
	}
	var levels resultRows[stockLevel]
	call(t, session, "check_stock", map[string]any{"sku": "CAM-001"}, &levels)
	sum := 0
	for _, l := range levels.Result {
		sum += l.Units
	}
	if len(levels.Result) != len(warehouses()) || sum != product.InStock {
		t.Errorf("stock %+v adds up to %d, the product says %d", levels.Result, sum, product.InStock)
	}
	var prices resultRows[pricePoint]
	call(t, session, "get_price_history", map[string]any{"sku": "CAM-001", "days": 365}, &prices)
	if len(prices.Result) != 365 || prices.Result[0].Date != "2025-07-01" || prices.Result[364] != (pricePoint{"2026-06-30", product.PriceCents}) {
		t.Errorf("%d prices from %v to %v", len(prices.Result), prices.Result[0], prices.Result[len(prices.Result)-1])
	}
	call(t, session, "get_price_history", map[string]any{"sku": "CAM-001"}, &prices)
	if len(prices.Result) != 30 {
		t.Errorf("%d prices by default, want 30", len(prices.Result))
	}
}

func TestInventoryOrders(t *testing.T) {
	session, _ := overHTTP(t, "inventory")
	units := func(sku string) int {
		var levels resultRows[stockLevel]
		call(t, session, "check_stock", map[string]any{"sku": sku, "warehouse": "porto"}, &levels)
		return levels.Result[0].Units
	}
	var level stockLevel
	call(t, session, "adjust_stock", map[string]any{"sku": "KIT-003", "warehouse": "porto", "change": 100, "reason": "delivery"}, &level)
	before := units("KIT-003")
	if level.Units != before || before < 100 {
		t.Fatalf("stock after a delivery of 100: %d, the tool said %d", before, level.Units)
	}
	var product item
	call(t, session, "get_product", map[string]any{"sku": "KIT-003"}, &product)

	var placed, got order
	lines := []map[string]any{{"sku": "KIT-003", "quantity": 7}, {"sku": "KIT-003", "quantity": 3}}
	call(t, session, "create_order", map[string]any{"customer": "Ada", "warehouse": "porto", "lines": lines}, &placed)
	if placed.ID != "o1" || placed.Status != orderOpen || placed.TotalCents != 10*product.PriceCents || placed.Created != "2026-05-04T10:30:00Z" {
		t.Errorf("order %+v", placed)
	}
	if now := units("KIT-003"); now != before-10 {
		t.Errorf("stock %d after ordering 10 of %d", now, before)
	}
	// Each line alone could be filled; together they ask for more than there is.
	lines = []map[string]any{{"sku": "KIT-003", "quantity": before - 10}, {"sku": "KIT-003", "quantity": 1}}
	refused(t, session, "create_order", map[string]any{"customer": "Bo", "warehouse": "porto", "lines": lines}, "not enough stock")
	if now := units("KIT-003"); now != before-10 {
		t.Errorf("a refused order changed the stock to %d", now)
	}

	call(t, session, "cancel_order", map[string]any{"id": "o1"}, &got)
	call(t, session, "cancel_order", map[string]any{"id": "o1"}, &got) // idempotent
	if now := units("KIT-003"); got.Status != orderCancelled || now != before {
		t.Errorf("after cancelling twice: %s, stock %d, want %d", got.Status, now, before)
	}
	refused(t, session, "ship_order", map[string]any{"id": "o1"}, "is cancelled")

	lines = []map[string]any{{"sku": "KIT-003", "quantity": 1}}
	call(t, session, "create_order", map[string]any{"customer": "Bo", "warehouse": "porto", "lines": lines}, &placed)
	call(t, session, "ship_order", map[string]any{"id": placed.ID}, &got)
	refused(t, session, "cancel_order", map[string]any{"id": placed.ID}, "is shipped")
	call(t, session, "get_order", map[string]any{"id": placed.ID}, &got)
	if got.Status != orderShipped {
		t.Errorf("order %+v, want it shipped", got)
	}
	var orders resultRows[order]
	call(t, session, "list_orders", nil, &orders)
	if len(orders.Result) != 2 || orders.Result[0].ID != "o2" {
		t.Errorf("orders %+v, want o2 first", orders.Result)
	}
	call(t, session, "list_orders", map[string]any{"customer": "ada", "status": "cancelled"}, &orders)
	if len(orders.Result) != 1 || orders.Result[0].ID != "o1" {
		t.Errorf("ada's cancelled orders: %+v", orders.Result)
	}
}

func TestInventoryRefusals(t *testing.T) {
	session, _ := overHTTP(t, "inventory")
	line := []map[string]any{{"sku": "BIK-001", "quantity": 1}}
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"get_product", nil, "sku"},
		{"get_product", map[string]any{"sku": "bike"}, "sku"},
		{"get_product", map[string]any{"sku": "BIK-999"}, "list_products"},
		{"list_products", map[string]any{"category": "boats"}, "category"},
		{"check_stock", map[string]any{"sku": "BIK-001", "warehouse": "mars"}, "warehouse"},
		{"check_stock", map[string]any{"sku": "BIK-999"}, "no such product"},
		{"adjust_stock", map[string]any{"sku": "BIK-001", "warehouse": "lyon", "change": -9999, "reason": "count"}, "not enough stock"},
		{"adjust_stock", map[string]any{"sku": "BIK-999", "warehouse": "lyon", "change": 1, "reason": "count"}, "no such product"},
		{"adjust_stock", map[string]any{"sku": "BIK-001", "warehouse": "lyon", "change": 1, "reason": "whim"}, "reason"},
		{"get_price_history", map[string]any{"sku": "BIK-001", "days": 366}, "days"},
		{"get_price_history", map[string]any{"sku": "BIK-999"}, "no such product"},
		{"create_order", map[string]any{"customer": "Ada", "warehouse": "lyon"}, "lines"},
		{"create_order", map[string]any{"customer": "Ada", "warehouse": "lyon", "lines": []any{}}, "lines"},
		{"create_order", map[string]any{"customer": "Ada", "warehouse": "mars", "lines": line}, "warehouse"},
		{"create_order", map[string]any{"customer": "Ada", "warehouse": "lyon", "lines": []map[string]any{{"sku": "BIK-001", "quantity": 0}}}, "quantity"},
		{"create_order", map[string]any{"customer": "Ada", "warehouse": "lyon", "lines": []map[string]any{{"sku": "BIK-999", "quantity": 1}}}, "no such product"},
		{"get_order", map[string]any{"id": "o9"}, "list_orders"},
		{"cancel_order", map[string]any{"id": "o9"}, "no such order"},
		{"list_orders", map[string]any{"status": "lost"}, "status"},
	} {
		refused(t, session, c.tool, c.args, c.want)
	}
}

func TestOrderBookIsBounded(t *testing.T) {
	s := newShop(fixedNow)
	if _, err := s.adjust("BIK-001", "lyon", maxOrders+1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.adjust("BIK-001", "lyon", 100*maxQuantity); err == nil {
		t.Error("a warehouse has room without end")
	}
	for range maxOrders {
		if _, err := s.place("Ada", "lyon", []orderLine{{"BIK-001", 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.place("Ada", "lyon", []orderLine{{"BIK-001", 1}}); !errors.Is(err, errOrdersFull) {
		t.Errorf("order %d: %v, want errOrdersFull", maxOrders+1, err)
	}
}

func TestShopSellsEachUnitOnce(t *testing.T) {
	s := newShop(fixedNow)
	if _, err := s.adjust("BIK-001", "lyon", 100); err != nil {
		t.Fatal(err)
	}
	levels, err := s.levels("BIK-001", "lyon")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 2 * levels[0].Units {
		wait.Go(func() { _, _ = s.place("Ada", "lyon", []orderLine{{"BIK-001", 1}}) })
	}
	wait.Wait()
	if got := len(s.listOrders("", "", maxOrders)); got != levels[0].Units {
		t.Errorf("%d orders of one unit each, %d were in stock", got, levels[0].Units)
	}
}

func TestInventoryGuardsItsPort(t *testing.T) {
	_, url := overHTTP(t, "inventory")
	list := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		what   string
		url    string
		body   []byte
		header [2]string
		host   string
		want   int
	}{
		{what: "another path", url: strings.TrimSuffix(url, "/mcp") + "/other", body: list, want: http.StatusNotFound},
		{what: "a page of another site", url: url, body: list, header: [2]string{"Origin", "https://evil.example"}, want: http.StatusForbidden},
		{what: "a rebound name", url: url, body: list, host: "evil.example", want: http.StatusForbidden},
		{what: "a body over the limit", url: url, body: bytes.Repeat([]byte{' '}, maxBody+1), want: http.StatusRequestEntityTooLarge},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if c.header[0] != "" {
			req.Header.Set(c.header[0], c.header[1])
		}
		req.Host = c.host
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", c.what, resp.Status, c.want)
		}
	}
}
