package demo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxOrders     = 5000
	maxOrderLines = 20
	maxQuantity   = 10_000
	priceDays     = 365 // days of history each product has
)

// lastPriceDay is the newest day of every price history: generated data has a calendar of
// its own, so that it is the same on every day it is asked for.
var lastPriceDay = time.Date(2026, time.June, 30, 0, 0, 0, 0, time.UTC)

var (
	errNoProduct  = errors.New("no such product")
	errNoOrder    = errors.New("no such order")
	errStock      = errors.New("not enough stock")
	errOrderState = errors.New("order cannot be changed")
	errOrdersFull = errors.New("the order book is full")
)

func categories() []string { return []string{"bikes", "camping", "climbing", "clothing", "kitchen"} }
func warehouses() []string { return []string{"berlin", "lyon", "porto"} }

type orderStatus string

const (
	orderOpen      orderStatus = "open"
	orderShipped   orderStatus = "shipped"
	orderCancelled orderStatus = "cancelled"
)

func orderStatuses() []string {
	return []string{string(orderOpen), string(orderShipped), string(orderCancelled)}
}

// item is a product as the tools return it. Prices are whole cents.
type item struct {
	SKU         string `json:"sku" jsonschema:"article number, such as BIK-001"`
	Name        string `json:"name"`
	Category    string `json:"category"`
	Description string `json:"description"`
	PriceCents  int    `json:"price_cents" jsonschema:"current price in euro cents"`
	WeightGrams int    `json:"weight_grams"`
	InStock     int    `json:"in_stock" jsonschema:"units in all warehouses together"`
}

type stockLevel struct {
	SKU       string `json:"sku"`
	Warehouse string `json:"warehouse"`
	Units     int    `json:"units"`
}

type orderLine struct {
	SKU      string `json:"sku" jsonschema:"article number, such as BIK-001"`
	Quantity int    `json:"quantity" jsonschema:"units to order"`
}

type order struct {
	ID         string      `json:"id" jsonschema:"identifier of the order, such as o1"`
	Customer   string      `json:"customer"`
	Warehouse  string      `json:"warehouse"`
	Status     orderStatus `json:"status"`
	Lines      []orderLine `json:"lines"`
	TotalCents int         `json:"total_cents"`
	Created    string      `json:"created" jsonschema:"time of creation, RFC 3339"`
}

type pricePoint struct {
	Date       string `json:"date" jsonschema:"day, as YYYY-MM-DD"`
	PriceCents int    `json:"price_cents"`
}

// shop is the state of the inventory server. It is safe for concurrent use.
type shop struct {
	now func() time.Time

	mu     sync.Mutex // guards below
	items  []item     // sorted by SKU; InStock is filled on the way out
	stock  map[string]map[string]int
	prices map[string][]pricePoint // oldest first
	orders []order
}

// newShop stocks a shop with generated products; the same ones every time.
func newShop(now func() time.Time) *shop {
	s := &shop{now: now, stock: map[string]map[string]int{}, prices: map[string][]pricePoint{}}
	nouns := map[string][]string{
		"bikes":    {"City Bike", "Gravel Bike", "Pannier", "Bell", "Pump", "Child Seat", "Frame Lock", "Rear Light"},
		"camping":  {"Two-Person Tent", "Sleeping Bag", "Head Lamp", "Gas Stove", "Tarp", "Sleeping Mat", "Water Filter", "Folding Chair"},
		"climbing": {"Rope 60 m", "Harness", "Quickdraw", "Chalk Bag", "Helmet", "Belay Device", "Carabiner", "Crash Pad"},
		"clothing": {"Rain Jacket", "Wool Shirt", "Hiking Socks", "Down Vest", "Sun Hat", "Trekking Trousers", "Gloves", "Scarf"},
		"kitchen":  {"Cast Iron Pan", "Bread Knife", "Enamel Mug", "Moka Pot", "Cutting Board", "Spice Mill", "Thermos Flask", "Lunch Box"},
	}
	random := rand.New(rand.NewPCG(7, 11))
	for _, category := range categories() {
		for i, name := range nouns[category] {
			sku := fmt.Sprintf("%s-%03d", strings.ToUpper(category[:3]), i+1)
			s.prices[sku] = walkPrices(random, 500+random.IntN(60_000))
			s.stock[sku] = map[string]int{}
			for _, w := range warehouses() {
				s.stock[sku][w] = random.IntN(60)
			}
			s.items = append(s.items, item{
				SKU: sku, Name: name, Category: category,
				Description: fmt.Sprintf("%s from the %s range, made to be repaired.", name, category),
				PriceCents:  s.prices[sku][priceDays-1].PriceCents,
				WeightGrams: 50 + random.IntN(9000),
			})
		}
	}
	slices.SortFunc(s.items, func(a, b item) int { return strings.Compare(a.SKU, b.SKU) })
	return s
}

func walkPrices(random *rand.Rand, cents int) []pricePoint {
	points := make([]pricePoint, priceDays)
	for i := range points {
		if random.IntN(10) == 0 { // a price changes about every tenth day
			cents = max(100, cents+cents*(random.IntN(13)-6)/100)
		}
		day := lastPriceDay.AddDate(0, 0, i-priceDays+1)
		points[i] = pricePoint{Date: day.Format(time.DateOnly), PriceCents: cents}
	}
	return points
}

// list gives the products of a category ("" for all) whose name or description holds text.
func (s *shop) list(category, text string, onlyInStock bool, limit int) []item {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = strings.ToLower(text)
	found := []item{}
	for _, it := range s.items {
		it.InStock = s.total(it.SKU)
		switch {
		case category != "" && it.Category != category,
			onlyInStock && it.InStock == 0,
			!strings.Contains(strings.ToLower(it.Name+" "+it.Description), text):
		default:
			found = append(found, it)
		}
		if len(found) == limit {
			break
		}
	}
	return found
}

func (s *shop) product(sku string) (item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup(sku)
}

// lookup, total and findOrder are called with mu held.
func (s *shop) lookup(sku string) (item, error) {
	i, ok := slices.BinarySearchFunc(s.items, sku, func(it item, sku string) int { return strings.Compare(it.SKU, sku) })
	if !ok {
		return item{}, fmt.Errorf("%w: %q; list_products gives the article numbers", errNoProduct, sku)
	}
	it := s.items[i]
	it.InStock = s.total(sku)
	return it, nil
}

func (s *shop) total(sku string) int {
	sum := 0
	for _, units := range s.stock[sku] {
		sum += units
	}
	return sum
}

func (s *shop) findOrder(id string) (int, error) {
	i := slices.IndexFunc(s.orders, func(o order) bool { return o.ID == id })
	if i < 0 {
		return 0, fmt.Errorf("%w: %q; list_orders gives the identifiers", errNoOrder, id)
	}
	return i, nil
}

// levels gives the stock of a product in one warehouse, or in each for "".
func (s *shop) levels(sku, warehouse string) ([]stockLevel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.lookup(sku); err != nil {
		return nil, err
	}
	found := []stockLevel{}
	for _, w := range warehouses() {
		if warehouse == "" || warehouse == w {
			found = append(found, stockLevel{SKU: sku, Warehouse: w, Units: s.stock[sku][w]})
		}
	}
	return found, nil
}

// adjust adds change, which may be negative, to the units of a product in a warehouse.
func (s *shop) adjust(sku, warehouse string, change int) (stockLevel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.lookup(sku); err != nil {
		return stockLevel{}, err
	}
	units := s.stock[sku][warehouse] + change
	if units < 0 {
		return stockLevel{}, fmt.Errorf("%w: %s has %d of %s, a change of %d would leave fewer than none",
			errStock, warehouse, s.stock[sku][warehouse], sku, change)
	}
	if units > 100*maxQuantity {
		return stockLevel{}, fmt.Errorf("%s has no room for %d units of %s; %d is the most", warehouse, units, sku, 100*maxQuantity)
	}
	s.stock[sku][warehouse] = units
	return stockLevel{SKU: sku, Warehouse: warehouse, Units: units}, nil
}

// place takes the units of every line out of the warehouse, or changes nothing.
func (s *shop) place(customer, warehouse string, lines []orderLine) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.orders) >= maxOrders {
		return order{}, fmt.Errorf("%w: it holds %d orders; restart the demo server to empty it", errOrdersFull, maxOrders)
	}
	wanted := map[string]int{}
	total := 0
	for _, line := range lines {
		it, err := s.lookup(line.SKU)
		if err != nil {
			return order{}, err
		}
		wanted[line.SKU] += line.Quantity
		if have := s.stock[line.SKU][warehouse]; wanted[line.SKU] > have {
			return order{}, fmt.Errorf("%w: %s has %d of %s, the order asks for %d",
				errStock, warehouse, have, line.SKU, wanted[line.SKU])
		}
		total += it.PriceCents * line.Quantity
	}
	for sku, quantity := range wanted {
		s.stock[sku][warehouse] -= quantity
	}
	o := order{
		ID: fmt.Sprintf("o%d", len(s.orders)+1), Customer: customer, Warehouse: warehouse, Status: orderOpen,
		Lines: slices.Clone(lines), TotalCents: total, Created: s.now().UTC().Format(time.RFC3339),
	}
	s.orders = append(s.orders, o)
	return o, nil
}

func (s *shop) order(id string) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.findOrder(id)
	if err != nil {
		return order{}, err
	}
	return s.orders[i], nil
}

// listOrders gives the newest orders first.
func (s *shop) listOrders(status orderStatus, customer string, limit int) []order {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []order{}
	for _, o := range slices.Backward(s.orders) {
		if len(found) == limit {
			break
		}
		if (status == "" || o.Status == status) && (customer == "" || strings.EqualFold(o.Customer, customer)) {
			found = append(found, o)
		}
	}
	return found
}

// ship marks an open order as sent; cancel ends one and puts its units back.

func (s *shop) ship(id string) (order, error) { return s.finish(id, orderShipped) }

func (s *shop) cancel(id string) (order, error) { return s.finish(id, orderCancelled) }

func (s *shop) finish(id string, to orderStatus) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.findOrder(id)
	if err != nil {
		return order{}, err
	}
	o := &s.orders[i]
	switch {
	case o.Status == to:
		return *o, nil
	case o.Status != orderOpen:
		return order{}, fmt.Errorf("%w: %s is %s and cannot become %s", errOrderState, id, o.Status, to)
	}
	o.Status = to
	if to == orderCancelled {
		for _, line := range o.Lines {
			s.stock[line.SKU][o.Warehouse] += line.Quantity
		}
	}
	return *o, nil
}

// history gives the last days of a product's prices, oldest first.
func (s *shop) history(sku string, days int) ([]pricePoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.lookup(sku); err != nil {
		return nil, err
	}
	return slices.Clone(s.prices[sku][priceDays-days:]), nil
}
