"""The words the synthetic pages are written in: five languages, a few dozen words each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """The vocabulary of one language.

    Parameters
    ----------
    code
        The value of ``<html lang>``.
    gap
        What stands between two words: empty for Japanese.
    qualities, things
        Make up titles of products, articles and threads.
    fillers
        Fill sentences together with qualities and things.
    names, surnames, cities, roles
        Make up people.
    labels
        The words of the user interface, as in ``{{ui.search}}``, in the order of `LABEL_NAMES`.
    """

    code: str
    gap: str
    qualities: tuple[str, ...]
    things: tuple[str, ...]
    fillers: tuple[str, ...]
    names: tuple[str, ...]
    surnames: tuple[str, ...]
    cities: tuple[str, ...]
    roles: tuple[str, ...]
    labels: tuple[str, ...]


LABEL_NAMES = (
    "home", "search", "menu", "cart", "buy", "details", "reviews", "related", "comments", "reply", "next", "previous",
    "contact", "about", "terms", "privacy", "login", "register", "share", "newsletter", "more", "author", "date",
    "topics", "members", "filter", "contents", "example", "cookies", "accept",
)  # fmt: skip


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ENGLISH = Language(
    "en",
    " ",
    _words(
        "amber quiet folding northern woven compact solid bright early rugged silver plain heavy light double narrow "
        "broad hollow smooth rough winter summer coastal alpine urban rural modern classic simple steady swift "
        "patient careful open hidden local"
    ),
    _words(
        "lamp kettle bicycle harbour bridge market river garden window engine council library orchard tunnel lantern "
        "blanket compass saddle notebook chair table basket ladder stove jacket tent paddle mirror clock radio "
        "telescope budget festival railway reservoir school museum theatre workshop forest meadow island"
    ),
    _words(
        "the a of in with from over under near after before against between its their every some most few many when "
        "while because although where still again often seldom never always brings keeps turns makes finds holds "
        "opens closes carries follows shows gives takes leaves moves grows falls rises was were will would could"
    ),
    _words("Ada Ben Clara David Elena Frank Grace Hugo Irene James Karen Louis Maria Noah Olive Peter Ruth Simon"),
    _words("Abbott Barnes Carter Dalton Ellis Foster Graham Harper Irving Jensen Keller Lawson Mercer Norton"),
    _words("Ashford Brookhaven Clearwater Dunmore Eastfield Fairview Glenrock Hillcrest Kingsport Lakewood"),
    ("Professor", "Lecturer", "Editor", "Engineer", "Curator", "Treasurer", "Librarian", "Research fellow"),
    (
        "Home", "Search", "Menu", "Cart", "Add to cart", "Details", "Reviews", "You may also like", "Comments", "Reply",
        "Next", "Previous", "Contact", "About us", "Terms", "Privacy", "Sign in", "Register", "Share", "Newsletter",
        "Read more", "Author", "Date", "Topics", "Members", "Filter", "Contents", "Example",
        "We use cookies on this site.", "Accept",
    ),
)  # fmt: skip

GERMAN = Language(
    "de",
    " ",
    _words(
        "grüne kühle schöne große kleine stille alte neue süße frühe späte weiße dünne nördliche südliche hölzerne "
        "gläserne künstliche natürliche einfache doppelte leichte schwere günstige tägliche mögliche"
    ),
    _words(
        "Lampe Brücke Tür Küche Mühle Bücherei Straße Gärtnerei Schüssel Decke Leiter Uhr Jacke Kanne Tasche Börse "
        "Behörde Prüfung Ausstellung Führung Übung Fähre Höhle Wäsche Bühne Schaufel Säge Glühbirne"
    ),
    _words(
        "der die das und oder aber für über unter zwischen während weil obwohl wenn dann noch schon immer nie selten "
        "häufig zeigt bringt hält öffnet schließt führt trägt wächst fällt wäre würde könnte müsste größer später"
    ),
    _words("Jürgen Käthe Björn Anja Sören Heike Günter Birgit Lars Ute Jörg Silke Uwe Änne"),
    _words("Müller Schäfer Köhler Krüger Böhm Voß Weiß Lüdtke Jäger Größer Brückner Hübner"),
    _words("Köln Düren Görlitz Fürth Lübeck Gießen Nürtingen Plön Würzen Bad-Tölz"),
    ("Professorin", "Geschäftsführer", "Redakteurin", "Kassenwart", "Bürgermeister", "Prüferin"),
    (
        "Startseite", "Suche", "Menü", "Warenkorb", "In den Warenkorb", "Einzelheiten", "Bewertungen", "Ähnliches",
        "Kommentare", "Antworten", "Nächste", "Zurück", "Kontakt", "Über uns", "Geschäftsbedingungen", "Datenschutz",
        "Anmelden", "Registrieren", "Teilen", "Rundbrief", "Weiterlesen", "Verfasser", "Datum", "Themen", "Mitglieder",
        "Auswählen", "Inhalt", "Beispiel", "Diese Seite benützt Cookies.", "Zustimmen",
    ),
)  # fmt: skip

FRENCH = Language(
    "fr",
    " ",
    _words(
        "légère étroite ancienne élégante dorée discrète entière régulière première dernière fidèle privée âpre "
        "mûre sûre drôle légendaire écrite célèbre éphémère brève claire grise"
    ),
    _words(
        "lampe théière forêt fenêtre bibliothèque rivière chaîne boîte étagère échelle pièce matière élection réunion "
        "école église gare île fête crème poêle clé musée marché théâtre hôtel"
    ),
    _words(
        "le la les un une des et ou mais où déjà très après avant même entre près sous contre pendant lorsque jamais "
        "toujours parfois était sera montre élève préfère achète reçoit répète espère amène"
    ),
    _words("Aurélie Benoît Céline François Gérard Hélène Joël Mélanie Noémie Rémi Solène Zoé"),
    _words("Bérard Chêneau Défossé Étienne Fournière Gaudré Hébert Lefèvre Méric Prévost Rivière Sénéchal"),
    _words("Orléans Nîmes Besançon Béziers Mâcon Évreux Angoulême Sète Périgueux"),
    ("Rédactrice", "Ingénieur", "Trésorière", "Bibliothécaire", "Maître de conférences", "Secrétaire"),
    (
        "Accueil", "Rechercher", "Menu", "Panier", "Ajouter au panier", "Détails", "Avis", "À découvrir",
        "Commentaires", "Répondre", "Suivant", "Précédent", "Contact", "À propos", "Conditions", "Confidentialité",
        "Se connecter", "Créer un compte", "Partager", "Lettre d’information", "Lire la suite", "Auteur", "Date",
        "Thèmes", "Membres", "Filtrer", "Sommaire", "Exemple", "Ce site emploie des témoins.", "Accepter",
    ),
)  # fmt: skip

RUSSIAN = Language(
    "ru",
    " ",
    _words(
        "новый старый тихий лёгкий тяжёлый зимний летний северный южный простой двойной узкий широкий светлый тёмный "
        "ранний поздний местный городской сельский прочный удобный"
    ),
    _words(
        "фонарь чайник мост рынок сад двигатель совет музей театр вокзал лес остров завод праздник журнал стул стол "
        "шкаф ковёр рюкзак велосипед компас дневник берег"
    ),
    _words(
        "и или но что как где когда пока если хотя потому всегда никогда иногда часто редко снова уже ещё над под "
        "между перед после около был будет может держит ведёт несёт даёт берёт растёт падает"
    ),
    _words("Анна Борис Вера Григорий Дарья Егор Зоя Иван Ксения Лев Мария Олег Полина"),
    _words("Белова Воронин Гусев Дроздова Ершов Жуков Зимин Климова Лосев Морозова"),
    _words("Псков Тверь Кострома Вологда Рязань Калуга Суздаль Выборг"),
    ("Редактор", "Инженер", "Профессор", "Хранитель", "Казначей", "Библиотекарь"),
    (
        "Главная", "Поиск", "Меню", "Корзина", "В корзину", "Подробнее", "Отзывы", "Похожее", "Комментарии", "Ответить",
        "Далее", "Назад", "Контакты", "О нас", "Условия", "Конфиденциальность", "Войти", "Регистрация", "Поделиться",
        "Рассылка", "Читать далее", "Автор", "Дата", "Темы", "Участники", "Фильтр", "Содержание", "Пример",
        "Сайт использует куки.", "Принять",
    ),
)  # fmt: skip

JAPANESE = Language(
    "ja",
    "",
    _words(
        "新しい 古い 静かな 軽い 重い 冬の 夏の 北の "
        "南の 簡単な 細い 広い 明るい 丈夫な 便利な 小さな 大きな"
    ),
    _words(
        "電灯 自転車 橋 市場 川 庭 窓 図書館 果樹園 毛布 羅針盤 "
        "手帳 椅子 机 籠 梯子 上着 鏡 時計 鉄道 学校 美術館 劇場"
    ),
    _words(
        "が を に で は も から まで より そして しかし "
        "また いつも 時々 見せる 運ぶ 開く 閉じる 育つ 残る 動く 続く 思う"
    ),
    _words("明 恵 健一 春子 大輔 直美 翔 美咲 陽介 由紀"),
    _words("佐藤 鈴木 高橋 田中 渡辺 伊藤 山本 中村 小林 加藤"),
    _words("金沢 松本 長崎 函館 仙台 高松 奈良 倉敷"),
    ("教授", "編集者", "技師", "学芸員", "会計", "司書"),
    (
        "ホーム", "検索", "メニュー", "買い物かご", "かごに入れる", "詳細", "評価", "関連商品", "コメント",
        "返信", "次へ", "前へ", "連絡先", "会社案内", "規約", "個人情報", "ログイン", "登録", "共有", "会報",
        "続きを読む", "著者", "日付", "話題", "会員", "絞り込み", "目次", "例",
        "このサイトはクッキーを使います。", "同意する",
    ),
)  # fmt: skip

LANGUAGES = {language.code: language for language in (ENGLISH, GERMAN, FRENCH, RUSSIAN, JAPANESE)}
