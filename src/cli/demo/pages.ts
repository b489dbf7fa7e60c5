import type { Random } from './random.js'

/** A page of the shop. */
export interface Page {
  /** path and query of its address */
  path: string
  title: string
}

/** A page, and what the shop records when a visitor opens it. */
export interface Step {
  page: Page
  events: readonly OwnEvent[]
}

/** An event that the shop itself records. */
interface OwnEvent {
  name: string
  properties: object
}

const SHOP = 'Kettle & Cup'
const ORIGIN = 'https://kettle-and-cup.example'
const CATEGORIES = ['coffee', 'tea', 'mugs', 'grinders', 'gifts'] as const
const SEARCHES = ['espresso', 'green tea', 'gift', 'Mühle', '抹茶', 'filter', ''] as const
const HOME: Page = { path: '/', title: SHOP }
const OTHERS = [
  HOME,
  toPage('/sale', 'Sale'),
  toPage('/guides/espresso-at-home', 'Espresso at home'),
  toPage('/help', 'Help'),
  toPage('/about', 'About us'),
] as const
export const SIGN_UP = toPage('/sign-up', 'Create an account')
export const ACCOUNT = toPage('/account', 'Your account')
export const CART = toPage('/cart', 'Your cart')
export const CHECKOUT = toPage('/checkout', 'Checkout')
export const THANKS = toPage('/checkout/thanks', 'Thank you')

interface Product {
  product: string
  category: string
  price: number
  page: Page
}

/** A product, and how many a customer would buy. */
export interface Item extends Product {
  quantity: number
}

const NAMES: Record<(typeof CATEGORIES)[number], readonly (readonly [name: string, price: number])[]> = {
  coffee: [
    ['House espresso', 12.9],
    ['Ethiopia Guji', 16.5],
    ['Decaf', 13.4],
    ['Cold brew bags', 9.95],
  ],
  tea: [
    ['Sencha', 11.2],
    ['Earl Grey', 8.5],
    ['Matcha', 24],
    ['Rooibos', 7.9],
  ],
  mugs: [
    ['Stoneware mug', 18],
    ['Espresso cups', 29.5],
    ['Travel mug', 27.9],
  ],
  grinders: [
    ['Hand grinder', 79],
    ['Burr grinder', 99.9],
  ],
  gifts: [
    ['Tasting box', 39],
    ['Gift card', 50],
    ['Brewing class', 65],
  ],
}

const PRODUCTS = Object.entries(NAMES).map(([category, names]) =>
  names.map(([product, price]): Product => {
    return { product, category, price, page: toPage(`/products/${category}/${toSlug(product)}`, product) }
  }),
)

function toPage(path: string, title: string): Page {
  return { path, title: `${title} – ${SHOP}` }
}

function toSlug(name: string): string {
  return name.toLowerCase().replaceAll(' ', '-')
}

/** Returns the address of a page, with parameters that do not belong to it. */
export function toUrl({ path }: Page, parameters: Record<string, string> = {}): string {
  const all = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return all.length === 0 ? `${ORIGIN}${path}` : `${ORIGIN}${path}?${all.join('&')}`
}

/** Finds the page that an external link points to. */
export function findPage(path: string): Page {
  const title = path.slice(path.lastIndexOf('/') + 1).replaceAll('-', ' ')
  return path === '/' ? HOME : toPage(path, title.charAt(0).toUpperCase() + title.slice(1))
}

/** Makes a step of a visitor who is browsing. */
export function browse(random: Random): Step {
  const kind = random.next()
  if (kind < 0.28) return { page: random.early(OTHERS), events: [] }
  if (kind < 0.46)
    return { page: findPage(random.chance(0.4) ? '/products' : `/products/${random.early(CATEGORIES)}`), events: [] }
  if (kind < 0.6) return search(random)
  return look(chooseItem(random), random, random.chance(0.3))
}

function search(random: Random): Step {
  const query = random.early(SEARCHES)
  return {
    page: toPage(`/search?q=${encodeURIComponent(query)}`, 'Search'),
    events: [{ name: 'searched', properties: { query, results: random.below(40) } }],
  }
}

export function chooseItem(random: Random): Item {
  return { ...random.early(random.early(PRODUCTS)), quantity: 1 + random.early([0, 1, 2, 3]) }
}

/** Makes a step of a visitor who views a product and may add it to the cart. */
export function look({ product, category, price, quantity, page }: Item, random: Random, isAdded: boolean): Step {
  const viewed = { product, category, price, tags: [category, random.early(['new', 'sale'])] }
  const added = { product, category, price, quantity }
  return {
    page,
    events: [
      { name: 'product viewed', properties: viewed },
      ...(isAdded ? [{ name: 'added to cart', properties: added }] : []),
    ],
  }
}
